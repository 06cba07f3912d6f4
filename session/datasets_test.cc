// Datasets and iterators as steps see them: waiting, ends, positions, bounds, files of anybody. tests/interop
// compares elements and their order with TensorFlow's.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "kernels/formats/record_io.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DatasetsTest : public TestOpSession {
 protected:
  Output Number(int64_t value) { return Const(Tensor::Scalar(value)); }
  Output Text(const std::string& value) { return Const(Tensor::Scalar(value)); }
  static AttrMap Of(DType dtype, PartialShape shape = PartialShape::OfRank(0)) {
    return {{"output_types", std::vector<DType>{dtype}},
            {"output_shapes", std::vector<PartialShape>{std::move(shape)}}};
  }
  Output Range(int64_t stop) {
    return g_.AddOp("RangeDataset", {Number(0), Number(stop), Number(1)}, Of(D::kInt64));
  }
  Output Stage(const char* op, Output input, std::vector<Output> others) {
    std::vector<InputArg> inputs = {input};
    for (const Output& other : others) inputs.emplace_back(other);
    return g_.AddOp(op, inputs, Of(D::kInt64));
  }
  Output Iterator(const std::string& shared_name = "", DType dtype = D::kInt64,
                  PartialShape shape = PartialShape::OfRank(0)) {
    AttrMap attrs = Of(dtype, std::move(shape));
    attrs["shared_name"] = shared_name;
    attrs["container"] = "";
    return g_.AddOp("IteratorV2", {}, attrs);
  }
  Node* Make(Output dataset, Output iterator) { return g_.AddNode("MakeIterator", {dataset, iterator}); }
  Output Next(Output iterator, DType dtype = D::kInt64, PartialShape shape = PartialShape::OfRank(0)) {
    return g_.AddOp("IteratorGetNext", {iterator}, Of(dtype, std::move(shape)));
  }

  absl::Status RunNode(Node* node) { return session().Run({}, {}, {node}).status(); }
  // Elements until the first error, which ends up in last_.
  std::vector<int64_t> Drain(Output next, int limit = 100) {
    std::vector<int64_t> values;
    for (int i = 0; i < limit; ++i) {
      const auto result = session().Run({}, {next});
      last_ = result.status();
      if (!result.ok()) break;
      values.push_back((*result)[0].scalar<int64_t>());
    }
    return values;
  }
  std::vector<std::string> DrainTexts(Output next, int limit = 100) {
    std::vector<std::string> values;
    for (int i = 0; i < limit; ++i) {
      const auto result = session().Run({}, {next});
      last_ = result.status();
      if (!result.ok()) break;
      values.push_back((*result)[0].scalar<std::string>());
    }
    return values;
  }

  absl::Status last_;
};

TEST_F(DatasetsTest, AnIteratorGivesItsElementsThenItsEndAndBeginsAgain) {
  const Output iterator = Iterator();
  Node* const make = Make(Stage("RepeatDataset", Range(2), {Number(2)}), iterator);
  const Output next = Next(iterator);
  EXPECT_THAT(Drain(next), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(last_.message()), HasSubstr("has not been initialized"));
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(RunNode(make).ok());
    EXPECT_THAT(Drain(next), ElementsAre(0, 1, 0, 1));
    EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(last_.message()), HasSubstr("End of sequence"));
    EXPECT_THAT(Drain(next), IsEmpty());
  }
}

TEST_F(DatasetsTest, ADatasetMustFitItsIterator) {
  const Output floats = Iterator("", D::kFloat32), vectors = Iterator("", D::kInt64, PartialShape({2}));
  Node* const wrong_type = Make(Range(2), floats);
  Node* const wrong_shape = Make(Range(2), vectors);
  EXPECT_THAT(std::string(RunNode(wrong_type).message()),
              HasSubstr("Data type mismatch at component 0: expected float"));
  EXPECT_THAT(std::string(RunNode(wrong_shape).message()),
              HasSubstr("Incompatible shapes at component 0: expected [2] but got []"));
}

// What a node says of shapes other nodes are compiled for.
TEST_F(DatasetsTest, AnElementThatIsNotWhatItsDatasetSaysIsRefused) {
  const Output rows = Const(Tensor::From<int64_t>(Shape({2, 3}), {1, 2, 3, 4, 5, 6}));
  AttrMap attrs = {{"Toutput_types", std::vector<DType>{D::kInt64}},
                   {"output_shapes", std::vector<PartialShape>{PartialShape({2})}}};
  const Output dataset = g_.AddOp("TensorSliceDataset", {std::vector<Output>{rows}}, attrs);
  const Output iterator = Iterator("", D::kInt64, PartialShape({2}));
  Node* const make = Make(dataset, iterator);
  const Output next = Next(iterator, D::kInt64, PartialShape({2}));
  ASSERT_TRUE(RunNode(make).ok());
  EXPECT_THAT(std::string(session().Run({}, {next}).status().message()),
              HasSubstr("Incompatible shapes at component 0: expected [2] but got [3]"));
}

TEST_F(DatasetsTest, PrefetchedElementsComeInOrderAndAPassThatIsLeftEnds) {
  const Output iterator = Iterator();
  const Output endless = Stage("RepeatDataset", Range(1000), {Number(-1)});
  Node* const make = Make(Stage("PrefetchDataset", endless, {Number(7)}), iterator);
  const Output next = Next(iterator);
  for (int pass = 0; pass < 20; ++pass) {
    ASSERT_TRUE(RunNode(make).ok());
    EXPECT_THAT(Drain(next, 5), ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST_F(DatasetsTest, APassIsSavedAndRestored) {
  const Output iterator = Iterator(), other = Iterator();
  const Output shuffled = Stage("ShuffleDataset", Range(9), {Number(4), Number(3), Number(5)});
  const Output dataset = Stage("PrefetchDataset", Stage("RepeatDataset", shuffled, {Number(2)}), {Number(3)});
  Node* const make = Make(dataset, iterator);
  Node* const make_other = Make(Range(3), other);
  const Output next = Next(iterator);
  Node* const save = g_.AddNode("SerializeIterator", {iterator});
  Node* const restore = g_.AddNode("DeserializeIterator", {iterator, save->output(0)});
  Node* const restore_other = g_.AddNode("DeserializeIterator", {other, save->output(0)});
  ASSERT_TRUE(RunNode(make).ok());
  ASSERT_EQ(Drain(next, 5).size(), 5);
  ASSERT_TRUE(RunNode(restore).ok()) << RunNode(restore);
  const std::vector<int64_t> rest = Drain(next);
  EXPECT_EQ(rest.size(), 13);
  ASSERT_TRUE(RunNode(make).ok());
  std::vector<int64_t> all = Drain(next);
  EXPECT_EQ(std::vector<int64_t>(all.begin() + 5, all.end()), rest);
  ASSERT_TRUE(RunNode(make_other).ok());
  EXPECT_THAT(std::string(RunNode(restore_other).message()), HasSubstr("saved position"));
}

// What iterators of a dataset share, what is cached and the seeds of the next pass, is changed by positions
// that are its own alone.
TEST_F(DatasetsTest, APositionThatIsRefusedChangesNothing) {
  const AttrMap pairs = {
      {"output_types", std::vector<DType>{D::kInt64, D::kInt64}},
      {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0), PartialShape::OfRank(0)}}};
  const auto zipped = [&](int64_t first, bool shuffles, Output second) {
    const Output range =
        g_.AddOp("RangeDataset", {Number(first), Number(first + 3), Number(1)}, Of(D::kInt64));
    const Output kept = shuffles ? Stage("ShuffleDataset", range, {Number(3), Number(3), Number(5)})
                                 : Stage("CacheDataset", range, {Text("")});
    const Output repeated = Stage("RepeatDataset", kept, {Number(-1)});
    return g_.AddOp("ZipDataset", {std::vector<Output>{repeated, second}}, pairs);
  };
  const auto iterator_of_pairs = [&] {
    AttrMap attrs = pairs;
    attrs["shared_name"] = attrs["container"] = "";
    return g_.AddOp("IteratorV2", {}, attrs);
  };
  const auto next_of = [&](Output iterator) { return g_.AddOp("IteratorGetNext", {iterator}, pairs); };
  for (const bool shuffles : {false, true}) {
    // A pass that the attempt has begun gives no elements, and those that come have the next seeds.
    const int num_lost = shuffles ? 1 : 0;
    const Output iterator = iterator_of_pairs(), other = iterator_of_pairs();
    Node* const make = Make(zipped(0, shuffles, Range(100)), iterator);
    // Its position is as long, and then longer.
    Node* const make_other =
        Make(zipped(10, shuffles, Stage("RepeatDataset", Range(100), {Number(2)})), other);
    Node* const save = g_.AddNode("SerializeIterator", {other});
    Node* const restore = g_.AddNode("DeserializeIterator", {iterator, save->output(0)});
    const Output next = next_of(iterator), next_of_other = next_of(other);
    session_.reset();
    ASSERT_TRUE(RunNode(make).ok());
    std::vector<int64_t> wanted = Drain(next, 12 + 3 * num_lost);
    ASSERT_EQ(wanted.size(), 12 + 3 * num_lost);
    wanted.erase(wanted.begin() + 3, wanted.begin() + 3 + 3 * num_lost);
    ASSERT_TRUE(RunNode(make_other).ok());
    ASSERT_EQ(Drain(next_of_other, 4).size(), 4);
    ASSERT_TRUE(RunNode(make).ok());
    std::vector<int64_t> again = Drain(next, 1);
    EXPECT_THAT(std::string(RunNode(restore).message()), HasSubstr("values are left over"));
    for (const int64_t value : Drain(next, 11)) again.push_back(value);
    EXPECT_EQ(again, wanted) << shuffles;
  }
}

// A checkpoint has the position as a string; whatever else is in that string is refused.
TEST_F(DatasetsTest, APassIsSavedInACheckpointAndGoesOnInAnotherSession) {
  const Output iterator = Iterator();
  const Output shuffled = Stage("ShuffleDataset", Range(9), {Number(4), Number(3), Number(5)});
  Node* const make = Make(Stage("RepeatDataset", shuffled, {Number(2)}), iterator);
  const Output next = Next(iterator);
  const Output prefix = Text(absl::StrCat(testing::TempDir(), "/position"));
  const Output name = Const(Tensor::Vector<std::string>({"iterator"}));
  const Output whole = Const(Tensor::Vector<std::string>({""}));
  const Output position = g_.AddOp("SerializeIterator", {iterator});
  Node* const save = g_.AddNode("SaveV2", {prefix, name, whole, std::vector<Output>{position}});
  Node* const save_text =
      g_.AddNode("SaveV2", {prefix, name, whole, std::vector<Output>{Text("no position")}});
  const Output restored =
      g_.AddOp("RestoreV2", {prefix, name, whole}, {{"dtypes", std::vector<DType>{D::kVariant}}});
  Node* const restore = g_.AddNode("DeserializeIterator", {iterator, restored});
  ASSERT_TRUE(RunNode(make).ok());
  ASSERT_EQ(Drain(next, 5).size(), 5);
  ASSERT_TRUE(RunNode(save).ok()) << RunNode(save);
  const std::vector<int64_t> rest = Drain(next);
  session_.reset();
  ASSERT_TRUE(RunNode(make).ok());
  ASSERT_TRUE(RunNode(restore).ok()) << RunNode(restore);
  EXPECT_EQ(Drain(next), rest);
  EXPECT_EQ(rest.size(), 13);
  ASSERT_TRUE(RunNode(save_text).ok());
  EXPECT_THAT(std::string(RunNode(restore).message()), HasSubstr("no saved position of an iterator"));
}

TEST_F(DatasetsTest, ElementsByTheirNumberAndAllInARandomOrder) {
  const Output iterator = Iterator();
  const Output taken = Stage("TakeDataset", Stage("SkipDataset", Range(100), {Number(10)}), {Number(37)});
  const Output third = g_.AddOp("GetElementAtIndex", {taken, Number(2)}, Of(D::kInt64));
  const Output beyond = g_.AddOp("GetElementAtIndex", {taken, Number(37)}, Of(D::kInt64));
  const Output handle = g_.AddOp("DummySeedGenerator", {});
  const Output all = Stage("GlobalShuffleDataset", taken, {Number(3), Number(5), handle});
  Node* const make = Make(all, iterator);
  const Output next = Next(iterator);
  EXPECT_EQ((*session().Run({}, {third}))[0].scalar<int64_t>(), 12);
  EXPECT_EQ(session().Run({}, {beyond}).status().code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(RunNode(make).ok()) << RunNode(make);
  std::vector<int64_t> values = Drain(next);
  EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  ASSERT_EQ(values.size(), 37);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(values[i], 10 + i);
  const Output endless = Stage("RepeatDataset", Range(3), {Number(-1)});
  EXPECT_THAT(
      std::string(
          RunNode(Stage("GlobalShuffleDataset", endless, {Number(3), Number(5), handle}).node).message()),
      HasSubstr("non-empty finite cardinality"));
}

// Sums and products of numbers below those that say "infinite" and "unknown" overflowed.
TEST_F(DatasetsTest, ANumberOfElementsThatCannotBeIsUnknown) {
  const Output least = Stage("AssertCardinalityDataset", Range(2), {Number(INT64_MIN)});
  const auto count = [&](Output dataset) { return g_.AddOp("DatasetCardinality", {dataset}); };
  const auto counts = RunAnew({count(least), count(Stage("ConcatenateDataset", least, {least})),
                               count(Stage("RepeatDataset", least, {Number(2)})),
                               count(Stage("SkipDataset", least, {Number(2)}))});
  ASSERT_TRUE(counts.ok()) << counts.status();
  for (const Tensor& each : *counts) EXPECT_EQ(each.scalar<int64_t>(), -2);
  const Output iterator = Iterator();
  Node* const make = Make(least, iterator);
  const Output next = Next(iterator);
  session_.reset();
  ASSERT_TRUE(RunNode(make).ok());
  EXPECT_THAT(Drain(next), IsEmpty());
  EXPECT_THAT(std::string(last_.message()), HasSubstr("contain -9223372036854775808 elements"));
}

TEST_F(DatasetsTest, AChainOfTooManyDatasetsIsRefused) {
  const Output iterator = Iterator();
  Output dataset = Range(2);
  for (int i = 0; i < 1100; ++i) dataset = Stage("SkipDataset", dataset, {Number(0)});
  Node* const make = Make(dataset, iterator);
  EXPECT_THAT(std::string(RunNode(make).message()), HasSubstr("more than 1000 datasets"));
}

// Each holds the one before in a tensor: what has the last one would be destroyed by calls as deep.
TEST_F(DatasetsTest, DatasetsInTensorsOfDatasetsAreCountedToo) {
  Output dataset = Range(2);
  const AttrMap attrs = {{"Toutput_types", std::vector<DType>{D::kVariant}},
                         {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
  for (int i = 0; i < 1100; ++i) dataset = g_.AddOp("TensorDataset", {std::vector<Output>{dataset}}, attrs);
  EXPECT_THAT(std::string(RunNode(dataset.node).message()), HasSubstr("more than 1000 datasets"));
}

// A batch copies component by component: what a node says of its input must be so.
TEST_F(DatasetsTest, ANodeThatSaysOtherTypesThanItsInputHasIsRefused) {
  const AttrMap two = {{"output_types", std::vector<DType>{D::kInt64, D::kInt64}},
                       {"output_shapes", std::vector<PartialShape>(2)}};
  const Output claimed = g_.AddOp("RepeatDataset", {Range(2), Number(2)}, two);
  EXPECT_THAT(std::string(RunNode(claimed.node).message()),
              HasSubstr("Number of components does not match: expected 2 types but got 1."));
  const Output floats = g_.AddOp("TakeDataset", {Range(2), Number(2)}, Of(D::kFloat32));
  EXPECT_THAT(std::string(RunNode(floats.node).message()),
              HasSubstr("Data type mismatch at component 0: expected float"));
}

// One that holds itself would never go, and a chain of them would be destroyed by calls as deep as it is
// long.
TEST_F(DatasetsTest, AnonymousIteratorsLieInNoDatasets) {
  const Output iterator = g_.AddOp("AnonymousIteratorV3", {}, Of(D::kResource));
  const AttrMap attrs = {{"Toutput_types", std::vector<DType>{D::kResource}},
                         {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
  const Output dataset = g_.AddOp("TensorDataset", {std::vector<Output>{iterator}}, attrs);
  EXPECT_THAT(std::string(RunNode(Make(dataset, iterator)).message()), HasSubstr("anonymous iterator"));
  session_.reset();
  const Output optional = g_.AddOp("OptionalFromValue", {std::vector<Output>{iterator}},
                                   {{"Toutput_types", std::vector<DType>{D::kResource}}});
  EXPECT_THAT(std::string(RunNode(optional.node).message()), HasSubstr("anonymous iterator"));
}

// A dataset that is joined with itself n times would have 2^n iterators.
TEST_F(DatasetsTest, DatasetsThatAreMadeOfThemselvesTooOftenAreRefused) {
  Output joined = Range(2), chosen = Range(2);
  for (int i = 0; i < 60; ++i) joined = Stage("ConcatenateDataset", joined, {joined});
  for (int i = 0; i < 40; ++i) {
    chosen =
        g_.AddOp("DirectedInterleaveDataset", {Range(2), std::vector<Output>{chosen, chosen}}, Of(D::kInt64));
  }
  Output chain = Stage("ShuffleDataset", Range(2), {Number(4), Number(3), Number(5)});
  for (int i = 0; i < 60; ++i) chain = Stage("ConcatenateDataset", chain, {Range(1)});
  const Output in_any_order =
      Stage("GlobalShuffleDataset", chain, {Number(3), Number(5), g_.AddOp("DummySeedGenerator", {})});
  EXPECT_THAT(std::string(RunNode(joined.node).message()), HasSubstr("with repetition"));
  EXPECT_THAT(std::string(RunNode(chosen.node).message()), HasSubstr("with repetition"));
  EXPECT_THAT(std::string(RunNode(in_any_order.node).message()), HasSubstr("random access"));
}

TEST_F(DatasetsTest, AnEndlessSkipIsCancelledWithItsStep) {
  const Output endless = Stage("RepeatDataset", Range(10), {Number(-1)});
  const auto cancelled = [&](Output dataset, const PartialShape& shape) {
    const Output iterator = Iterator("", D::kInt64, shape);
    Node* const make = Make(dataset, iterator);
    const Output next = Next(iterator, D::kInt64, shape);
    session_.reset();
    EXPECT_TRUE(RunNode(make).ok());
    return session().Run({}, {next}, {}, {.timeout = absl::Milliseconds(200)}).status().code();
  };
  EXPECT_EQ(cancelled(Stage("SkipDataset", endless, {Number(INT64_MAX)}), PartialShape::OfRank(0)),
            absl::StatusCode::kDeadlineExceeded);
  const PartialShape rows = PartialShape::OfRank(1);
  const Output windows = g_.AddOp("SlidingWindowDataset", {endless, Number(2), Number(INT64_MAX), Number(1)},
                                  Of(D::kInt64, rows));
  EXPECT_EQ(cancelled(windows, rows), absl::StatusCode::kDeadlineExceeded);
}

// TensorFlow says 7, 3 and 0.
TEST_F(DatasetsTest, SlidingWindowsAreAsManyAsTheySay) {
  const AttrMap attrs = Of(D::kInt64, PartialShape::OfRank(1));
  const std::vector<int64_t> numbers = {5, 1, 1}, sizes = {3, 2, 3}, shifts = {1, 2, 9}, strides = {1, 5, 1};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Output windows = g_.AddOp(
        "SlidingWindowDataset", {Range(7), Number(sizes[i]), Number(shifts[i]), Number(strides[i])}, attrs);
    EXPECT_EQ((*RunAnew({g_.AddOp("DatasetCardinality", {windows})}))[0].scalar<int64_t>(), numbers[i]);
    const Output asserted = g_.AddOp("AssertCardinalityDataset", {windows, Number(numbers[i])}, attrs);
    const Output iterator = Iterator("", D::kInt64, PartialShape::OfRank(1));
    Node* const make = Make(asserted, iterator);
    const Output next = Next(iterator, D::kInt64, PartialShape::OfRank(1));
    session_.reset();
    ASSERT_TRUE(RunNode(make).ok());
    for (int64_t k = 0; k < numbers[i]; ++k) EXPECT_TRUE(session().Run({}, {next}).ok());
    EXPECT_EQ(session().Run({}, {next}).status().code(), absl::StatusCode::kOutOfRange);
  }
}

// Datasets of functions, whose bodies are built here.
class DatasetFunctionsTest : public DatasetsTest {
 protected:
  struct Body {
    Body(const OpRegistry& ops, DType argument) : g(ops) {
      x = g.AddOp("_Arg", {}, {{"T", argument}, {"index", 0}});
    }
    Output Number(int64_t value) {
      return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", D::kInt64}});
    }
    std::string Returning(Output result, DType dtype) {
      g.AddNode("_Retval", {result}, {{"T", dtype}, {"index", 0}});
      EXPECT_TRUE(g.ok()) << g.status();
      return GraphDefBytes(g.graph()).value();
    }
    GraphBuilder g;
    Output x;
  };

  AttrMap Calling(const char* attr, std::string body) {
    AttrMap attrs = Of(D::kInt64);
    attrs[attr] = FunctionName{"body"};
    attrs[BodyAttr(attr)] = std::move(body);
    attrs["Targuments"] = std::vector<DType>();
    return attrs;
  }
  // The numbers below `stop`, with InvalidArgument in the place of `k`.
  Output Failing(int64_t stop, int64_t k) {
    Body body(runtime_->ops(), D::kInt64);
    const Output distance = body.g.AddOp("Sub", {body.x, body.Number(k)});
    const Output zero = body.g.AddOp("FloorDiv", {body.Number(0), distance});
    const Output same = body.g.AddOp("AddV2", {body.x, zero});
    return g_.AddOp("MapDataset", {Range(stop), std::vector<Output>()},
                    Calling("f", body.Returning(same, D::kInt64)));
  }
  // As many numbers as said, other ones each time that they are computed.
  Output Drawn(int64_t count, bool count_is_known = true) {
    Body body(runtime_->ops(), D::kInt64);
    const Output scalar =
        body.g.AddOp("Const", {}, {{"value", Tensor(D::kInt32, Shape({0}))}, {"dtype", D::kInt32}});
    const Output drawn =
        body.g.AddOp("RandomUniformInt", {scalar, body.Number(0), body.Number(int64_t{1} << 60)});
    AttrMap attrs = Calling("f", body.Returning(drawn, D::kInt64));
    attrs["preserve_cardinality"] = count_is_known;
    return g_.AddOp("MapDataset", {Range(count), std::vector<Output>()}, attrs);
  }
  // Element x of those below 100, with OutOfRange for `k`.
  static Output Looked(Body& body, int64_t k) {
    const Output all =
        body.g.AddOp("RangeDataset", {body.Number(0), body.Number(100), body.Number(1)}, Of(D::kInt64));
    const Output is_k =
        body.g.AddOp("Cast", {body.g.AddOp("Equal", {body.x, body.Number(k)})}, {{"DstT", D::kInt64}});
    const Output beyond = body.g.AddOp("Mul", {is_k, body.Number(1000)});
    return body.g.AddOp("GetElementAtIndex", {all, body.g.AddOp("AddV2", {body.x, beyond})}, Of(D::kInt64));
  }
  // All elements of all windows.
  Output Windows(Output input, int64_t size, int64_t shift, int64_t stride) {
    const Output windows = g_.AddOp(
        "WindowDataset", {input, Number(size), Number(shift), Number(stride), Const(Tensor::Scalar(false))},
        Of(D::kVariant));
    Body body(runtime_->ops(), D::kVariant);
    return g_.AddOp("FlatMapDataset", {windows, std::vector<Output>()},
                    Calling("f", body.Returning(body.x, D::kVariant)));
  }
  // -1 for each error; the last one is in error_.
  std::vector<int64_t> Elements(Output dataset) {
    const Output iterator = Iterator();
    Node* const make = Make(dataset, iterator);
    const Output next = Next(iterator);
    session_.reset();
    last_ = RunNode(make);
    EXPECT_TRUE(last_.ok()) << last_;
    std::vector<int64_t> all;
    for (int i = 0; i < 20; ++i) {
      const std::vector<int64_t> some = Drain(next);
      all.insert(all.end(), some.begin(), some.end());
      if (absl::IsOutOfRange(last_)) break;
      error_ = last_;
      all.push_back(-1);
    }
    return all;
  }

  absl::Status error_;
};

// What TensorFlow gives for each of these.
TEST_F(DatasetFunctionsTest, ZippedElementsKeepTheirPartnersBehindAnError) {
  AttrMap two = {{"output_types", std::vector<DType>{D::kInt64, D::kInt64}},
                 {"output_shapes", std::vector<PartialShape>(2, PartialShape::OfRank(0))}};
  const Output zipped = g_.AddOp("ZipDataset", {std::vector<Output>{Failing(5, 2), Range(5)}}, two);
  const Output kept = g_.AddOp("IgnoreErrorsDataset", {zipped}, two);
  Node* const next_of = g_.AddNode(
      "DatasetToSingleElement",
      {g_.AddOp("SkipDataset", {g_.AddOp("TakeDataset", {kept, Number(3)}, two), Number(2)}, two)}, two);
  const auto third = session().Run({}, {next_of->output(0), next_of->output(1)});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ((*third)[0].scalar<int64_t>(), 3);
  EXPECT_EQ((*third)[1].scalar<int64_t>(), 3);
}

TEST_F(DatasetFunctionsTest, AnErrorKeepsItsPlaceInWindows) {
  EXPECT_THAT(Elements(Windows(Failing(12, 3), 2, 4, 1)), ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_THAT(Elements(Windows(Stage("IgnoreErrorsDataset", Failing(6, 1), {}), 2, 2, 1)),
              ElementsAre(0, 2, 3, 4, 5));
  EXPECT_THAT(Elements(Windows(Failing(6, 1), 2, 2, 1)), ElementsAre(-1, 2, 3, 4, 5));
  EXPECT_THAT(Elements(Windows(Failing(6, 3), 3, 1, 1)), ElementsAre(0, 1, 2, -1, -1, -1, 4, 5, 5));
  EXPECT_THAT(Elements(Windows(Failing(5, 4), 3, 3, 1)), ElementsAre(0, 1, 2, -1));
  EXPECT_THAT(Elements(Windows(Failing(8, 1), 2, 2, 2)), ElementsAre(0, 2, 2, 4, 4, 6, 6));
}

TEST_F(DatasetFunctionsTest, OutOfRangeOfAFunctionIsAnErrorAndNoEnd) {
  Body wanted(runtime_->ops(), D::kInt64);
  const Output is_positive = wanted.g.AddOp("GreaterEqual", {Looked(wanted, 2), wanted.Number(0)});
  const Output filtered = g_.AddOp("FilterDataset", {Range(5), std::vector<Output>()},
                                   Calling("predicate", wanted.Returning(is_positive, D::kBool)));
  EXPECT_THAT(Elements(filtered), ElementsAre(0, 1, -1, 3, 4));
  EXPECT_EQ(error_.code(), absl::StatusCode::kInternal) << error_;
  EXPECT_THAT(std::string(error_.message()), HasSubstr("returned `OutOfRange`"));
  Body mapped(runtime_->ops(), D::kInt64);
  const Output ended = g_.AddOp("MapDataset", {Range(5), std::vector<Output>()},
                                Calling("f", mapped.Returning(Looked(mapped, 2), D::kInt64)));
  EXPECT_THAT(Elements(ended), ElementsAre(0, 1));
}

// Who takes all of them never asks for the end.
TEST_F(DatasetFunctionsTest, ACacheIsCompleteWithAsManyElementsAsItsInputHas) {
  const auto taken_twice = [&](int64_t count) {
    const Output cache = Stage("CacheDataset", Drawn(3), {Text("")});
    return Elements(Stage("RepeatDataset", Stage("TakeDataset", cache, {Number(count)}), {Number(2)}));
  };
  const std::vector<int64_t> all = taken_twice(3), some = taken_twice(2);
  ASSERT_EQ(all.size(), 6);
  EXPECT_THAT(std::vector<int64_t>(all.begin() + 3, all.end()), ElementsAre(all[0], all[1], all[2]));
  ASSERT_EQ(some.size(), 4);
  EXPECT_NE(some[2], some[0]) << "a part of a pass is no cache";
}

TEST_F(DatasetFunctionsTest, AnElementOfACacheIsComputedOnce) {
  for (const bool count_is_known : {true, false}) {
    session_.reset();
    const Output cache = Stage("CacheDataset", Drawn(5, count_is_known), {Text("")});
    const auto at = [&](int64_t index) {
      return g_.AddOp("GetElementAtIndex", {cache, Number(index)}, Of(D::kInt64));
    };
    const Output once = at(2), again = at(2), other = at(3);
    const auto values = session().Run({}, {once, again, other});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ((*values)[0].scalar<int64_t>(), (*values)[1].scalar<int64_t>());
    EXPECT_NE((*values)[0].scalar<int64_t>(), (*values)[2].scalar<int64_t>());
    session_.reset();
    EXPECT_THAT(ErrorOf(at(5)), HasSubstr("Index out of range [0, 5): 5"));
    EXPECT_THAT(ErrorOf(at(-1)), HasSubstr("Index out of range"));
  }
  const Output cache = Stage("CacheDataset", Drawn(5), {Text("")});
  const Output shuffled =
      Stage("GlobalShuffleDataset", cache, {Number(3), Number(5), g_.AddOp("DummySeedGenerator", {})});
  const auto halves_are_equal = [](std::vector<int64_t> values) {
    ASSERT_EQ(values.size(), 10);
    std::sort(values.begin(), values.begin() + 5);
    std::sort(values.begin() + 5, values.end());
    EXPECT_TRUE(std::equal(values.begin(), values.begin() + 5, values.begin() + 5));
  };
  halves_are_equal(Elements(Stage("RepeatDataset", shuffled, {Number(2)})));
  halves_are_equal(Elements(Stage("ConcatenateDataset", cache, {shuffled})));
}

// IgnoreErrors above it would ask for the same one for ever.
TEST_F(DatasetFunctionsTest, AGlobalShuffleGoesOnBehindAnError) {
  const Output failing = Stage("AssertCardinalityDataset", Failing(5, 2), {Number(5)});
  std::vector<int64_t> values = Elements(
      Stage("GlobalShuffleDataset", failing, {Number(3), Number(5), g_.AddOp("DummySeedGenerator", {})}));
  std::sort(values.begin(), values.end());
  EXPECT_THAT(values, ElementsAre(-1, 0, 1, 3, 4));
}

// What a node says of shapes other nodes are compiled for.
TEST_F(DatasetFunctionsTest, AStateOfAnotherShapeThanItsNodeSaysIsRefused) {
  Body body(runtime_->ops(), D::kInt64);
  body.g.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 1}});
  const Output pair = body.g.AddOp("Pack", {std::vector<Output>{body.x, body.x}});
  AttrMap attrs = Calling("f", body.Returning(pair, D::kInt64));
  attrs["Tstate"] = std::vector<DType>{D::kInt64};
  const auto reduced = [&](PartialShape shape) {
    attrs["output_shapes"] = std::vector<PartialShape>{std::move(shape)};
    return g_.AddOp("ReduceDataset", {Range(1), std::vector<Output>{Number(7)}, std::vector<Output>()},
                    attrs);
  };
  const auto fits = RunAnew({reduced(PartialShape({2}))});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ((*fits)[0].shape(), Shape({2}));
  EXPECT_THAT(ErrorOf(reduced(PartialShape({3}))),
              HasSubstr("Incompatible shapes at component 0: expected [3] but got [2]"));
}

// A shared iterator outlives its session: the worker's end is what ends the call.
TEST_F(DatasetFunctionsTest, AMapThatWaitsEndsWithItsWorker) {
  Body body(runtime_->ops(), D::kInt64);
  const Output queue = body.g.AddOp("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{D::kInt64}}});
  const Output taken =
      body.g.AddOp("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{D::kInt64}}});
  const Output waiting = g_.AddOp("ParallelMapDatasetV2", {Range(5), std::vector<Output>(), Number(2)},
                                  Calling("f", body.Returning(taken, D::kInt64)));
  const Output iterator = Iterator("shared");
  Node* const make = Make(waiting, iterator);
  const Output next = Next(iterator);
  ASSERT_TRUE(RunNode(make).ok());
  const auto result = session().Run({}, {next}, {}, {.timeout = absl::Milliseconds(200)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
}

// What waited in an iterator whose position was saved, or restored, counted no more: further calls began.
TEST_F(DatasetFunctionsTest, ResultsThatWaitCountAlsoBehindASavedPosition) {
  const AttrMap numbers = {{"component_types", std::vector<DType>{D::kInt64}}, {"shared_name", "calls"}};
  const AttrMap number = {{"component_types", std::vector<DType>{D::kInt64}}};
  Body body(runtime_->ops(), D::kInt64);
  const Output large = body.g.AddOp("_Arg", {}, {{"T", D::kInt8}, {"index", 1}});
  const Output taken = body.g.AddOp("QueueDequeueV2", {body.g.AddOp("FIFOQueueV2", {}, numbers)}, number);
  body.g.AddNode("_Retval", {taken}, {{"T", D::kInt64}, {"index", 0}});
  body.g.AddNode("_Retval", {large}, {{"T", D::kInt8}, {"index", 1}});
  AttrMap attrs = Calling("f", GraphDefBytes(body.g.graph()).value());
  attrs["Targuments"] = std::vector<DType>{D::kInt8};
  const AttrMap pair = {{"output_types", std::vector<DType>{D::kInt64, D::kInt8}},
                        {"output_shapes", std::vector<PartialShape>(2, PartialShape())}};
  for (const auto& [name, value] : pair) attrs[name] = value;
  AttrMap of_iterator = pair;
  of_iterator["shared_name"] = "";
  of_iterator["container"] = "";
  const Output iterator = g_.AddOp("IteratorV2", {}, of_iterator);
  const Output captured = Const(Tensor(D::kInt8, Shape({int64_t{257} << 20})));
  Node* const make =
      Make(g_.AddOp("ParallelMapDatasetV2", {Range(100), std::vector<Output>{captured}, Number(2)}, attrs),
           iterator);
  const Output next = g_.AddNode("IteratorGetNext", {iterator}, pair)->output(0);
  const Output queue = g_.AddOp("FIFOQueueV2", {}, numbers);
  Node* const put =
      g_.AddNode("QueueEnqueueManyV2",
                 {queue, std::vector<Output>{Const(Tensor::Vector<int64_t>({1, 2, 3, 4, 5, 6, 7, 8}))}});
  const Output left = g_.AddOp("QueueSizeV2", {queue});
  const Output saved = g_.AddOp("SerializeIterator", {iterator});
  const Output given = g_.AddOp("Placeholder", {}, {{"dtype", D::kVariant}});
  Node* const restore = g_.AddNode("DeserializeIterator", {iterator, given});
  const auto num_left = [&] { return session().Run({}, {left}).value()[0].scalar<int32_t>(); };
  ASSERT_TRUE(RunNode(make).ok());
  const auto waits = session().Run({}, {next}, {}, {.timeout = absl::Milliseconds(100)});
  EXPECT_EQ(waits.status().code(), absl::StatusCode::kDeadlineExceeded) << waits.status();
  ASSERT_TRUE(RunNode(put).ok());
  // Of the two calls that had begun then.
  ASSERT_TRUE(session().Run({}, {next}).ok());
  const auto position = session().Run({}, {saved});
  ASSERT_TRUE(position.ok()) << position.status();
  ASSERT_TRUE(session().Run({}, {next}).ok());
  EXPECT_EQ(num_left(), 6);
  ASSERT_TRUE(session().Run({{given, (*position)[0]}}, {}, {restore}).ok());
  ASSERT_TRUE(session().Run({}, {next}).ok());
  EXPECT_EQ(num_left(), 6);
}

// The next step put a further element into a group that was full.
TEST_F(DatasetFunctionsTest, AGroupWhoseStepWasCancelledBeginsInTheNextOne) {
  const PartialShape rows = PartialShape::FromDims({-1}).value();
  const AttrMap numbers = {{"component_types", std::vector<DType>{D::kInt64}}, {"shared_name", "gate"}};
  const AttrMap number = {{"component_types", std::vector<DType>{D::kInt64}}};
  Body key(runtime_->ops(), D::kInt64), reduce(runtime_->ops(), D::kInt64), size(runtime_->ops(), D::kInt64);
  const Output group = reduce.g.AddOp("_Arg", {}, {{"T", D::kVariant}, {"index", 1}});
  const Output taken = reduce.g.AddOp("QueueDequeueV2", {reduce.g.AddOp("FIFOQueueV2", {}, numbers)}, number);
  const Output batch = reduce.g.AddOp("BatchDataset", {group, taken}, Of(D::kInt64, rows));
  AttrMap attrs = Of(D::kInt64, rows);
  const auto add = [&](const std::string& function, std::string body) {
    attrs[function] = FunctionName{function};
    attrs[BodyAttr(function)] = std::move(body);
    attrs[absl::StrCat("T", function, "_other_arguments")] = std::vector<DType>();
  };
  add("key_func", key.Returning(key.Number(0), D::kInt64));
  add("reduce_func", reduce.Returning(batch, D::kVariant));
  add("window_size_func", size.Returning(size.Number(2), D::kInt64));
  const std::vector<Output> nothing;
  const Output iterator = Iterator("", D::kInt64, rows);
  Node* const make =
      Make(g_.AddOp("GroupByWindowDataset", {Range(4), nothing, nothing, nothing}, attrs), iterator);
  const Output next = Next(iterator, D::kInt64, rows);
  Node* const open =
      g_.AddNode("QueueEnqueueV2", {g_.AddOp("FIFOQueueV2", {}, numbers), std::vector<Output>{Number(8)}});
  ASSERT_TRUE(RunNode(make).ok());
  // Long enough for the functions before the one that waits.
  const absl::Status cancelled = session().Run({}, {next}, {}, {.timeout = absl::Milliseconds(500)}).status();
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kDeadlineExceeded) << cancelled;
  ASSERT_TRUE(RunNode(open).ok());
  const auto result = session().Run({}, {next});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)[0].flat<int64_t>(), ElementsAre(0, 1));
}

class RecordFilesTest : public DatasetsTest {
 protected:
  std::string Path(const std::string& name) { return absl::StrCat(testing::TempDir(), "/", name); }
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }
  // A small gzip file of TFRecords with that content, `num_members` times `num_records` of them.
  std::string WritePacked(const std::string& name, const std::string& record, int num_records,
                          int num_members) {
    auto writer = RecordWriter::Create(Path(name), Compression::kGzip).value();
    for (int i = 0; i < num_records; ++i) EXPECT_TRUE(writer->Write(record).ok());
    EXPECT_TRUE(writer->Close().ok());
    std::ifstream file(Path(name), std::ios::binary);
    const std::string member((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::string all;
    for (int i = 0; i < num_members; ++i) all += member;
    return Write(name, all);
  }
  // What an op on files gives.
  std::vector<std::string> Read(const char* op, const std::string& path, const std::string& compression,
                                std::vector<Output> sizes = {}) {
    session_.reset();
    const Output iterator = Iterator("", D::kString);
    std::vector<InputArg> inputs = {Text(path)};
    if (sizes.empty()) {
      inputs.emplace_back(Text(compression));
      inputs.emplace_back(Number(0));
    } else {
      for (const Output& size : sizes) inputs.emplace_back(size);
      inputs.emplace_back(Number(0));
      inputs.emplace_back(Text(compression));
    }
    Node* const make = Make(g_.AddOp(op, inputs), iterator);
    const Output next = Next(iterator, D::kString);
    last_ = RunNode(make);
    return last_.ok() ? DrainTexts(next) : std::vector<std::string>();
  }
};

TEST_F(RecordFilesTest, RecordsLinesAndPieces) {
  for (const auto& [compression, name] :
       {std::make_pair(Compression::kNone, ""), std::make_pair(Compression::kGzip, "GZIP"),
        std::make_pair(Compression::kZlib, "ZLIB")}) {
    const std::string path = Path(absl::StrCat("records", name));
    auto writer = RecordWriter::Create(path, compression).value();
    for (const char* record : {"one", "", "three"}) ASSERT_TRUE(writer->Write(record).ok());
    ASSERT_TRUE(writer->Close().ok());
    EXPECT_THAT(Read("TFRecordDataset", path, name), ElementsAre("one", "", "three"));
    EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange);
  }
  EXPECT_THAT(Read("TextLineDataset", Write("lines", "a\r\n\nb\rc\nlast"), ""),
              ElementsAre("a", "", "bc", "last"));
  const std::string pieces = Write("pieces", "HHaabbccFFF");
  EXPECT_THAT(Read("FixedLengthRecordDatasetV2", pieces, "", {Number(2), Number(2), Number(3)}),
              ElementsAre("aa", "bb", "cc"));
  EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Read("FixedLengthRecordDatasetV2", pieces, "", {Number(2), Number(4), Number(3)}),
              ElementsAre());
  EXPECT_EQ(last_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(last_.message()),
      HasSubstr("has body length 6 bytes, which is not an exact multiple of the record length (4 bytes)"));
  EXPECT_THAT(Read("FixedLengthRecordDatasetV2", pieces, "", {Number(INT64_MAX), Number(1), Number(13)}),
              IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kInvalidArgument) << last_;
}

// A few kilobytes that unpack to gigabytes were read to their end by a step that was over long since.
TEST_F(RecordFilesTest, AStepThatIsCancelledInALongRecordEndsThere) {
  const std::string path = WritePacked("returns", std::string(size_t{1} << 26, '\r'), 1, 64);
  const Output lines = g_.AddOp("TextLineDataset", {Text(path), Text("GZIP"), Number(0)});
  const Output pieces =
      g_.AddOp("FixedLengthRecordDatasetV2",
               {Text(path), Number(int64_t{1} << 40), Number(1), Number(0), Number(0), Text("GZIP")});
  for (const Output& dataset : {lines, pieces}) {
    const Output iterator = Iterator("", D::kString);
    Node* const make = Make(dataset, iterator);
    const Output next = Next(iterator, D::kString);
    session_.reset();
    ASSERT_TRUE(RunNode(make).ok());
    // Twice: a file that was read to its end has nothing to wait for.
    for (int i = 0; i < 2; ++i) {
      const auto result = session().Run({}, {next}, {}, {.timeout = absl::Milliseconds(100)});
      EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
    }
  }
}

TEST_F(RecordFilesTest, AReaderThatIsCancelledInItsHeaderGoesOnThere) {
  const std::string path = Write("header lines", std::string(size_t{1} << 27, '\n'));
  const Output queue = g_.AddOp("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{D::kString}}});
  const Output reader = g_.AddOp("TextLineReaderV2", {}, {{"skip_header_lines", int64_t{1} << 40}});
  Node* const read = g_.AddNode("ReaderReadV2", {reader, queue});
  const Output num_units = g_.AddOp("ReaderNumWorkUnitsCompletedV2", {reader});
  // The file comes on another thread, while the step waits for it: then its deadline can end it.
  const Output slow = Stage("SleepDataset", Range(1), {Number(50'000)});
  Node* const slept = g_.AddNode("DatasetToSingleElement", {slow}, Of(D::kInt64));
  Node* put = nullptr;
  {
    const auto behind = g_.ControlScope({slept});
    put = g_.AddNode("QueueEnqueueV2", {queue, std::vector<Output>{Text(path)}});
  }
  const auto result = session().Run({}, {}, {read, put}, {.timeout = absl::Milliseconds(150)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
  EXPECT_EQ(session().Run({}, {num_units}).value()[0].scalar<int64_t>(), 0);
}

// It waited for the other step, which may read for as long as its files are.
TEST_F(RecordFilesTest, AStepThatIsCancelledDoesNotWaitForOneThatFillsTheBuffer) {
  const Output records = g_.AddOp("RecordInput", {},
                                  {{"file_pattern", WritePacked("many_records", "", 1 << 16, 128)},
                                   {"file_buffer_size", int64_t{1} << 40},
                                   {"file_parallelism", int64_t{1}},
                                   {"batch_size", int64_t{1}},
                                   {"compression_type", "GZIP"}});
  Session& steps = session();
  std::atomic<int> num_over = 0;
  std::vector<std::thread> callers;
  for (const absl::Duration timeout : {absl::Seconds(600), absl::Milliseconds(50)}) {
    callers.emplace_back([&, timeout] {
      const absl::Status status = steps.Run({}, {records}, {}, {.timeout = timeout}).status();
      const bool is_first = num_over++ == 0;
      EXPECT_EQ(status.code() == absl::StatusCode::kDeadlineExceeded, is_first) << status;
    });
  }
  for (std::thread& caller : callers) caller.join();
}

class FileCacheTest : public RecordFilesTest {
 protected:
  struct Pass {
    Node* make;
    Output next;
  };
  Pass Cached(const std::string& name, Output input) {
    const Output iterator = Iterator();
    return {Make(Stage("CacheDataset", input, {Text(Path(name))}), iterator), Next(iterator)};
  }
};

TEST_F(FileCacheTest, OnePassWritesWhatLaterOnesRead) {
  const Pass first = Cached("cache", Range(3)), second = Cached("cache", Range(9));
  ASSERT_TRUE(RunNode(first.make).ok());
  ASSERT_TRUE(RunNode(second.make).ok());
  EXPECT_THAT(Drain(first.next, 1), ElementsAre(0));
  EXPECT_THAT(Drain(second.next), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(last_.message()), HasSubstr("cache_0.lockfile"));
  EXPECT_THAT(Drain(first.next), ElementsAre(1, 2));
  EXPECT_EQ(last_.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Drain(second.next), ElementsAre(0, 1, 2));
  ASSERT_TRUE(RunNode(first.make).ok());
  EXPECT_THAT(Drain(first.next), ElementsAre(0, 1, 2));
}

TEST_F(FileCacheTest, APassThatIsGivenUpLeavesNothing) {
  const Pass pass = Cached("given_up", Range(3)), other = Cached("given_up", Range(2));
  ASSERT_TRUE(RunNode(pass.make).ok());
  EXPECT_THAT(Drain(pass.next, 2), ElementsAre(0, 1));
  ASSERT_TRUE(RunNode(pass.make).ok());
  ASSERT_TRUE(RunNode(other.make).ok());
  EXPECT_THAT(Drain(other.next), ElementsAre(0, 1));
}

TEST_F(FileCacheTest, FilesOfOtherTypesAndDamagedOnesAreErrors) {
  const Pass writes = Cached("damaged", Range(3)), reads = Cached("damaged", Range(3));
  ASSERT_TRUE(RunNode(writes.make).ok());
  ASSERT_EQ(Drain(writes.next).size(), 3);
  const Output iterator = Iterator("", D::kString);
  Node* const make_texts =
      Make(g_.AddOp("CacheDataset", {Range(1), Text(Path("damaged"))}, Of(D::kString)), iterator);
  session_.reset();
  EXPECT_FALSE(RunNode(make_texts).ok()) << "the input gives numbers";
  Write("damaged.data-00000-of-00001", "short");
  ASSERT_TRUE(RunNode(reads.make).ok());
  EXPECT_THAT(Drain(reads.next, 1), IsEmpty());
  EXPECT_EQ(last_.code(), absl::StatusCode::kDataLoss) << last_;
}

// Every damage of a file is an error or an end, and never more than the file can hold.
TEST_F(RecordFilesTest, DamagedFilesEndWithAnErrorThatNamesThem) {
  const std::string path = Path("whole");
  auto writer = RecordWriter::Create(path, Compression::kGzip).value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(writer->Write(std::string(100, 'a' + i)).ok());
  ASSERT_TRUE(writer->Close().ok());
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const std::string name = Write("damaged", damaged);
    EXPECT_LE(Read("TFRecordDataset", name, "GZIP").size(), 5);
    if (last_.code() != absl::StatusCode::kOutOfRange) {
      EXPECT_THAT(std::string(last_.message()), HasSubstr(name)) << at;
    }
    Read("TFRecordDataset", Write("cut", whole.substr(0, at)), "GZIP");
    EXPECT_FALSE(last_.ok());
  }
  Read("TFRecordDataset", Path("absent"), "");
  EXPECT_EQ(last_.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(last_.message()), HasSubstr("absent"));
}

// The body's kernel would look for the rendezvous of a step, which a function has not.
TEST_F(DatasetsTest, ABodyThatReceivesIsRefused) {
  Graph body(g_.graph().ops());
  const Output received = body.AddNode({.op = kRecvOp,
                                        .name = "recv",
                                        .attrs = {{"tensor_type", D::kInt64},
                                                  {"tensor_name", "x:0"},
                                                  {"send_device", ""},
                                                  {"send_device_incarnation", 0},
                                                  {"recv_device", ""},
                                                  {kEdgeAttr, 0}}})
                              .value()
                              ->output(0);
  ASSERT_TRUE(
      body.AddNode({.op = kRetvalOp, .name = "r", .inputs = {received}, .attrs = {{"index", 0}}}).ok());
  AttrMap attrs = Of(D::kInt64);
  attrs["f"] = FunctionName{"f"};
  attrs["Targuments"] = std::vector<DType>{};
  attrs[BodyAttr("f")] = GraphDefBytes(body).value();
  const Output mapped = g_.AddOp("MapDataset", {Range(3), std::vector<Output>()}, attrs);
  const absl::Status made = RunNode(Make(mapped, Iterator()));
  EXPECT_TRUE(absl::IsInvalidArgument(made)) << made;
  EXPECT_THAT(std::string(made.message()), HasSubstr("is a part of steps"));
}

}  // namespace
}  // namespace weir
