// Pipelines of datasets as steps see them: rewrites, assertions, graphs of anybody. tests/interop compares
// them with TensorFlow's.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "session/test_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// TensorFlow's Options { optimization_options { noop_elimination: true } }.
const char kLeaveOutNoops[] = "\x1a\x02\x70\x01";

class DatasetPipelinesTest : public TestSession {
 protected:
  Output Const(Tensor value) {
    const DType dtype = value.dtype();
    return g_.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  Output Number(int64_t value) { return Const(Tensor::Scalar(value)); }
  static AttrMap Of(DType dtype) {
    return {{"output_types", std::vector<DType>{dtype}},
            {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
  }
  Output Range(int64_t stop) {
    return g_.AddOp("RangeDataset", {Number(0), Number(stop), Number(1)}, Of(D::kInt64));
  }
  Output Seeing(Output dataset, const std::string& name) {
    return g_.AddOp("AssertNextDataset", {dataset, Const(Tensor::Vector<std::string>({name}))},
                    Of(D::kInt64));
  }
  Output Asking(Output dataset, const std::string& options) {
    AttrMap attrs = Of(D::kInt64);
    attrs["serialized_options"] = options;
    return g_.AddOp("OptionsDataset", {dataset}, attrs);
  }
  // The elements; the error behind them is in last_.
  std::vector<int64_t> Elements(Output dataset) {
    AttrMap attrs = Of(D::kInt64);
    attrs["shared_name"] = attrs["container"] = "";
    const Output iterator = g_.AddOp("IteratorV2", {}, attrs);
    Node* const make = g_.AddNode("MakeIterator", {dataset, iterator});
    const Output next = g_.AddOp("IteratorGetNext", {iterator}, Of(D::kInt64));
    session_.reset();
    std::vector<int64_t> elements;
    last_ = session().Run({}, {}, {make}).status();
    while (last_.ok()) {
      const auto result = session().Run({}, {next});
      last_ = result.status();
      if (last_.ok()) elements.push_back((*result)[0].scalar<int64_t>());
    }
    return elements;
  }
  // Of the numbers below `stop`, those that leave `remainder` when `dividend` is divided by them.
  Output Filtered(int64_t stop, int64_t dividend, int64_t remainder) {
    GraphBuilder body(runtime_->ops());
    const auto number = [&](int64_t value) {
      return body.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", D::kInt64}});
    };
    const Output x = body.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}});
    const Output left = body.AddOp("FloorMod", {number(dividend), x});
    const Output is_left = body.AddOp("Equal", {left, number(remainder)});
    body.AddNode("_Retval", {is_left}, {{"T", D::kBool}, {"index", 0}});
    EXPECT_TRUE(body.ok()) << body.status();
    AttrMap attrs = Of(D::kInt64);
    attrs["predicate"] = FunctionName{"body"};
    attrs[BodyAttr("predicate")] = GraphDefBytes(body.graph()).value();
    attrs["Targuments"] = std::vector<DType>();
    return g_.AddOp("ParallelFilterDataset", {Range(stop), std::vector<Output>(), Number(3)}, attrs);
  }

  absl::Status last_;
};

TEST_F(DatasetPipelinesTest, ANoopIsLeftOutWhereOptionsAskForThat) {
  const Output skipped = g_.AddOp("SkipDataset", {Seeing(Range(5), "FiniteTake"), Number(0)}, Of(D::kInt64));
  const Output taken = g_.AddOp("TakeDataset", {skipped, Number(2)}, Of(D::kInt64));
  EXPECT_THAT(Elements(Asking(taken, kLeaveOutNoops)), ElementsAre(0, 1));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  EXPECT_THAT(Elements(taken), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(last_)) << last_;
  EXPECT_THAT(
      std::string(last_.message()),
      HasSubstr("Asserted transformation matching FiniteTake at offset 0 but encountered FiniteSkip"));
}

TEST_F(DatasetPipelinesTest, OptionsThatCannotBeReadAreRefused) {
  EXPECT_THAT(Elements(Asking(Range(2), "\xff\xff")), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(last_)) << last_;
  EXPECT_THAT(std::string(last_.message()), HasSubstr("the options of a dataset"));
}

TEST_F(DatasetPipelinesTest, AParallelFilterKeepsTheOrderAndEveryErrorItsPlace) {
  EXPECT_THAT(Elements(g_.AddOp("SkipDataset", {Filtered(13, 12, 0), Number(0)}, Of(D::kInt64))), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(last_)) << last_;  // 12 modulo 0
  const Output kept = g_.AddOp("IgnoreErrorsDataset", {Filtered(13, 12, 0)}, Of(D::kInt64));
  EXPECT_THAT(Elements(kept), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  const Output none = g_.AddOp("IgnoreErrorsDataset", {Filtered(200, 12, 100)}, Of(D::kInt64));
  EXPECT_THAT(Elements(none), IsEmpty());
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
}

TEST_F(DatasetPipelinesTest, AGraphOfAnybodyThatReceivesIsRefused) {
  Graph graph(g_.graph().ops());
  const Output received = graph
                              .AddNode({.op = kRecvOp,
                                        .name = "recv",
                                        .attrs = {{"tensor_type", D::kVariant},
                                                  {"tensor_name", "x:0"},
                                                  {"send_device", ""},
                                                  {"send_device_incarnation", 0},
                                                  {"recv_device", ""},
                                                  {kEdgeAttr, 0}}})
                              .value()
                              ->output(0);
  ASSERT_TRUE(
      graph.AddNode({.op = kRetvalOp, .name = "r", .inputs = {received}, .attrs = {{"index", 0}}}).ok());
  const Output bytes = Const(Tensor::Scalar(GraphDefBytes(graph).value()));
  EXPECT_THAT(Elements(g_.AddOp("DatasetFromGraph", {bytes})), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(last_)) << last_;
  EXPECT_THAT(std::string(last_.message()), HasSubstr("is a part of steps"));
}

TEST_F(DatasetPipelinesTest, APipelineIsTheSameBehindItsGraph) {
  const Output graph = g_.AddOp("DatasetToGraphV2", {Filtered(13, 12, 5)});
  EXPECT_THAT(
      Elements(g_.AddOp("IgnoreErrorsDataset", {g_.AddOp("DatasetFromGraph", {graph})}, Of(D::kInt64))),
      ElementsAre(7));
  const Output same = Filtered(13, 12, 5), another = Filtered(13, 12, 4);
  const Output first = g_.AddOp("DatasetFingerprint", {Filtered(13, 12, 5)});
  const auto prints = session().Run(
      {}, {first, g_.AddOp("DatasetFingerprint", {same}), g_.AddOp("DatasetFingerprint", {another})});
  ASSERT_TRUE(prints.ok()) << prints.status();
  EXPECT_EQ((*prints)[0].scalar<uint64_t>(), (*prints)[1].scalar<uint64_t>());
  EXPECT_NE((*prints)[0].scalar<uint64_t>(), (*prints)[2].scalar<uint64_t>());
}

}  // namespace
}  // namespace weir
