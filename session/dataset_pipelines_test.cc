// Pipelines of datasets as steps see them: rewrites, assertions, graphs of anybody. tests/interop compares
// them with TensorFlow's.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/plain_graph.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// TensorFlow's Options { optimization_options { noop_elimination: true } }.
const char kLeaveOutNoops[] = "\x1a\x02\x70\x01";
// Likewise of map_fusion, filter_fusion, map_and_filter_fusion.
const char kFuseMaps[] = "\x1a\x02\x58\x01";
const char kFuseFilters[] = "\x1a\x02\x30\x01";
const char kFuseMapAndFilter[] = "\x1a\x02\x50\x01";

class DatasetPipelinesTest : public TestOpSession {
 protected:
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

  static PlainNode Constant(const std::string& name, Tensor value) {
    const DType dtype = value.dtype();
    return {name, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}}};
  }
  static PlainNode Argument() { return {"x", kArgOp, {}, {{"index", 0}, {"T", D::kInt64}}}; }
  static PlainNode Result(const std::string& input, DType dtype) {
    return {"result", kRetvalOp, {input}, {{"index", 0}, {"T", dtype}}};
  }
  // A function's body: while x < limit: x += step.
  static std::vector<PlainNode> Loop(int64_t limit, int64_t step) {
    const AttrMap of = {{"T", D::kInt64}};
    AttrMap merge = of, enter = of;
    merge["N"] = 2;
    enter["frame_name"] = "while";
    AttrMap constant = enter;
    constant["is_constant"] = true;
    return {Argument(),
            Constant("limit", Tensor::Scalar(limit)),
            Constant("step", Tensor::Scalar(step)),
            {"enter", "Enter", {"x"}, enter},
            {"enter_limit", "Enter", {"limit"}, constant},
            {"enter_step", "Enter", {"step"}, constant},
            {"merge", "Merge", {"enter", "next"}, merge},
            {"less", "Less", {"merge", "enter_limit"}, of},
            {"condition", "LoopCond", {"less"}, {}},
            {"switch", "Switch", {"merge", "condition"}, of},
            {"sum", "AddV2", {"switch:1", "enter_step"}, of},
            {"next", "NextIteration", {"sum"}, of},
            {"exit", "Exit", {"switch"}, of}};
  }
  static std::vector<PlainNode> Mapping(std::vector<PlainNode> nodes, const std::string& result) {
    nodes.push_back(Result(result, D::kInt64));
    return nodes;
  }
  static std::vector<PlainNode> Below(std::vector<PlainNode> nodes, const std::string& of, int64_t bound) {
    nodes.push_back(Constant("bound", Tensor::Scalar(bound)));
    nodes.push_back({"verdict", "Less", {of, "bound"}, {{"T", D::kInt64}}});
    nodes.push_back(Result("verdict", D::kBool));
    return nodes;
  }
  Output With(const char* op, const char* function, Output input, const std::vector<PlainNode>& body) {
    AttrMap attrs = Of(D::kInt64);
    attrs[function] = FunctionName{"body"};
    attrs[BodyAttr(function)] = PlainGraphBytes(body).value();
    attrs["Targuments"] = std::vector<DType>();
    return g_.AddOp(op, {input, std::vector<Output>()}, attrs);
  }
  Output Map(Output input, const std::vector<PlainNode>& body) {
    return With("MapDataset", "f", input, body);
  }
  Output Filter(Output input, const std::vector<PlainNode>& body) {
    return With("FilterDataset", "predicate", input, body);
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

// Loops of one name would be one loop, which never ends.
TEST_F(DatasetPipelinesTest, LoopsOfFusedFunctionsAreLoopsOfTheirOwn) {
  const std::vector<PlainNode> to_10 = Mapping(Loop(10, 4), "exit"), to_30 = Mapping(Loop(30, 7), "exit");
  const auto maps = [&] { return Map(Map(Seeing(Range(4), "Map"), to_10), to_30); };
  EXPECT_THAT(Elements(Asking(maps(), kFuseMaps)), ElementsAre(33, 34, 31, 32));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  const auto below_13 = Below(Loop(10, 4), "exit", 13), below_33 = Below(Loop(30, 7), "exit", 33);
  const Output filters = Filter(Filter(Seeing(Range(6), "Filter"), below_13), below_33);
  EXPECT_THAT(Elements(Asking(filters, kFuseFilters)), ElementsAre(2, 3, 4));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  const Output filtered = Filter(Map(Range(4), to_10), below_33);
  EXPECT_THAT(Elements(Asking(filtered, kFuseMapAndFilter)), ElementsAre(10, 11));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
}

TEST_F(DatasetPipelinesTest, ALongChainIsFusedAndASharedPartOfItStays) {
  const std::vector<PlainNode> add_one = {Argument(),
                                          Constant("one", Tensor::Scalar<int64_t>(1)),
                                          {"sum", "AddV2", {"x", "one"}, {{"T", D::kInt64}}},
                                          Result("sum", D::kInt64)};
  Output mapped = Seeing(Range(3), "Map"), filtered = Seeing(Range(9), "Filter");
  for (int i = 0; i < 900; ++i) mapped = Map(mapped, add_one);
  for (int i = 0; i < 400; ++i) filtered = Filter(filtered, Below({Argument()}, "x", 404 - i));
  EXPECT_THAT(Elements(Asking(mapped, kFuseMaps)), ElementsAre(900, 901, 902));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  EXPECT_THAT(Elements(Asking(filtered, kFuseFilters)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  const Output two = Map(Map(Range(2), add_one), add_one);
  const Output both = g_.AddOp("ConcatenateDataset", {Map(two, add_one), two}, Of(D::kInt64));
  EXPECT_THAT(Elements(Asking(both, kFuseMaps)), ElementsAre(3, 4, 2, 3));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
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

TEST_F(DatasetPipelinesTest, AFlatMapTakesPlacesThatAreUnsignedNumbers) {
  const AttrMap of = {{"T", D::kInt64}};
  const std::vector<PlainNode> twice =
      Mapping({Argument(), {"pair", "Pack", {"x", "x"}, {{"T", D::kInt64}, {"N", 2}, {"axis", 0}}}}, "pair");
  const auto flat_map = [&](int64_t divisor, DType element, DType offset) {
    PlainNode second = Result("offset", offset);
    second.name = "second";
    second.attrs["index"] = 1;
    AttrMap attrs = Of(D::kInt64);
    attrs["map_func"] = attrs["index_map_func"] = FunctionName{"body"};
    attrs["Tmap_func_args"] = attrs["Tindex_map_func_args"] = std::vector<DType>();
    attrs[BodyAttr("map_func")] = PlainGraphBytes(twice).value();
    attrs[BodyAttr("index_map_func")] =
        PlainGraphBytes({Argument(),
                         Constant("divisor", Tensor::Scalar(divisor)),
                         Constant("two", Tensor::Scalar<int64_t>(2)),
                         {"quotient", "FloorDiv", {"x", "divisor"}, of},
                         {"rest", "FloorMod", {"x", "two"}, of},
                         {"element", "Cast", {"quotient"}, {{"SrcT", D::kInt64}, {"DstT", element}}},
                         {"offset", "Cast", {"rest"}, {{"SrcT", D::kInt64}, {"DstT", offset}}},
                         Result("element", element),
                         second})
            .value();
    return g_.AddOp("IndexFlatMapDataset",
                    {Range(3), std::vector<Output>(), std::vector<Output>(), Number(-2)}, attrs);
  };
  EXPECT_THAT(Elements(flat_map(2, D::kUint64, D::kUint32)), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  EXPECT_THAT(Elements(flat_map(2, D::kUint32, D::kUint64)), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_TRUE(absl::IsOutOfRange(last_)) << last_;
  // 1 divided by -2 is -1, which is 2^64 - 1 without a sign.
  EXPECT_THAT(Elements(flat_map(-2, D::kUint64, D::kUint64)), ElementsAre(0));
  EXPECT_TRUE(absl::IsInvalidArgument(last_)) << last_;
  EXPECT_THAT(std::string(last_.message()), HasSubstr("which returns 18446744073709551615"));
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

// It got a node that made no such dataset.
TEST_F(DatasetPipelinesTest, ADatasetThatIsPassedOnKeepsWhatMadeIt) {
  const Output unknown = g_.AddOp("NonSerializableDataset", {Range(3)}, Of(D::kInt64));
  AttrMap attrs = Of(D::kInt64);
  attrs["auto_shard_policy"] = -1;
  const Output passed = g_.AddOp("AutoShardDataset", {unknown, Number(2), Number(0)}, attrs);
  const absl::Status status = session().Run({}, {g_.AddOp("DatasetToGraphV2", {passed})}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

}  // namespace
}  // namespace weir
