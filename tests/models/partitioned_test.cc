// Variables in parts: how they are cut, what they begin with, how checkpoints hold them.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/meta_graph.h"
#include "kernels/formats/bundle_reader.h"
#include "ops/partitioned_variable.h"
#include "ops/training/adam.h"
#include "ops/training/exponential_moving_average.h"
#include "session/monitored/saver.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

std::map<std::string, Partitioner> Partitioners() {
  using namespace partitioners;
  return {{"fixed", FixedSize(3)},
          {"fixed_axis_1", FixedSize(3, 1)},
          {"fixed_many", FixedSize(100)},
          {"min_max", MinMax({.max_partitions = 4, .min_slice_size = 64})},
          {"min_max_axis_1", MinMax({.max_partitions = 100, .axis = 1, .min_slice_size = 16})},
          {"min_max_small", MinMax({.max_partitions = 4})},
          {"axis_size", VariableAxisSize({.max_shard_bytes = 100})},
          {"axis_size_tiny", VariableAxisSize({.max_shard_bytes = 1})},
          {"axis_size_limited", VariableAxisSize({.max_shard_bytes = 1, .max_shards = 3})},
          {"axis_size_axis_1", VariableAxisSize({.max_shard_bytes = 100, .axis = 1})}};
}

TEST(PartitionerTest, CutsLikeTensorFlow) {
  for (const auto& [name, partitioner] : Partitioners()) {
    for (const Shape& shape : {Shape({10, 7}), Shape({3, 40})}) {
      const std::string entry = absl::StrCat("partitioner/", name, "/", shape.dim(0), "x", shape.dim(1));
      const auto parts = partitioner(shape, DType::kFloat32);
      ASSERT_TRUE(parts.ok()) << parts.status();
      ExpectNear(Recorded(entry), Tensor::FromSpan<int64_t>(Shape({2}), *parts), entry);
    }
  }
}

TEST(PartitionerTest, TheAxisMayCountFromTheBack) {
  EXPECT_EQ(*partitioners::FixedSize(3, -1)(Shape({10, 7}), DType::kFloat32), (std::vector<int64_t>{1, 3}));
}

TEST(PartitionerTest, TheFirstPartsAreLargerByOne) {
  const auto cut = CutShape(Shape({2, 11}), {1, 4});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->axis, 1);
  EXPECT_EQ(cut->sizes, (std::vector<int64_t>{3, 3, 3, 2}));
}

TEST(PartitionerTest, RefusesWhatCannotBeCut) {
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape({4, 4}), {2, 2})),
                                "a variable of shape [4,4] cannot be cut into [2,2] parts: only one"));
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape({4}), {5})), "more parts than elements"));
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape({1'000'000}), {1'000'000})), "at most 65536 parts"));
  EXPECT_TRUE(CutShape(Shape({1'000'000}), {65'536}).ok());
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape({4}), {0})), "below 1"));
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape({4}), {1, 1})), "one number for each dimension"));
  EXPECT_TRUE(absl::StrContains(message(CutShape(Shape(), {})), "it has no dimension"));
  EXPECT_TRUE(absl::StrContains(message(partitioners::FixedSize(2, 2)(Shape({4, 4}), DType::kFloat32)),
                                "a variable of shape [4,4] cannot be cut along axis 2"));
  EXPECT_TRUE(absl::StrContains(message(partitioners::FixedSize(2)(Shape({0, 4}), DType::kFloat32)),
                                "cannot be cut along axis 0"));
  EXPECT_TRUE(absl::StrContains(message(partitioners::VariableAxisSize({})(Shape({4}), DType::kFloat32)),
                                "max_shard_bytes must be at least 1, is 0"));
}

class PartitionedTest : public RecordedModelTest {
 protected:
  PartitionedVariable Table(const Shape& shape, int64_t parts, double value = 0.5) {
    const auto scope = g_.NameScope("net");
    return MakePartitionedVariable(g_, "t", DType::kFloat32, shape, initializers::Constant(value),
                                   partitioners::FixedSize(parts));
  }
};

TEST_F(PartitionedTest, PartsBeginAsPartsOfTheWhole) {
  g_.set_random_seed(3);
  const std::map<std::string, Initializer> cases = {{"glorot_uniform", initializers::GlorotUniform(7)},
                                                    {"he_normal", initializers::HeNormal(7)},
                                                    {"identity", initializers::Identity(0.5)}};
  std::vector<std::pair<std::string, Output>> wholes;
  for (const auto& [name, initializer] : cases) {
    for (int axis : {0, 1}) {
      const PartitionedVariable table = MakePartitionedVariable(g_, "t", DType::kFloat32, {5, 4}, initializer,
                                                                partitioners::FixedSize(3, axis));
      wholes.emplace_back(absl::StrCat("partitioned/", name, "/", axis), WholeOf(g_, table));
    }
  }
  Initialize();
  for (const auto& [name, whole] : wholes) ExpectRecorded(name, whole);
}

TEST_F(PartitionedTest, AnErrorNamesTheVariable) {
  MakePartitionedVariable(g_, "t", DType::kFloat32, Shape(), initializers::Zeros(),
                          partitioners::FixedSize(3));
  ExpectError("partitioned variable 't': a variable of shape [] cannot be cut along axis 0");
}

// Saves what has been built, and gives the checkpoint.
std::string SaveAll(GraphBuilder& g, Session& session, const std::string& name) {
  const auto saver = Saver::Build(g);
  EXPECT_TRUE(saver.ok()) << saver.status();
  const auto path = (*saver)->Save(session, absl::StrCat(testing::TempDir(), "/", name), 0);
  EXPECT_TRUE(path.ok()) << path.status();
  return path.ok() ? *path : "";
}

// The checkpoint of a model with one variable, which is not in parts.
std::string SaveWhole(const std::string& name, const Tensor& value) {
  const auto runtime = Runtime::Create().value();
  LocalWorker worker(*runtime, runtime->task());
  GraphBuilder g(StandardOps());
  MakeVariable(g, name, value);
  Node* const init = InitializeVariables(g);
  const auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  EXPECT_TRUE(session->Run({}, {}, {init}).ok());
  return SaveAll(g, *session, "whole");
}

TEST_F(PartitionedTest, ACheckpointHoldsOneTensorLikeTensorFlows) {
  const PartitionedVariable table = Table({5, 2}, 2);
  const auto train = Adam(0.5).Minimize(g_, ReduceSum(g_, Square(g_, WholeOf(g_, table))));
  ASSERT_TRUE(train.ok()) << train.status();
  std::vector<std::string> names;
  for (const ModelVariable& variable : AllVariables(g_)) names.push_back(variable.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, RecordedStrings("partitioned/variables"));
  Initialize();
  Assign("net/t/part_0", Pattern({3, 2}, 1));
  Assign("net/t/part_1", Pattern({2, 2}, 2));
  const std::string path = SaveAll(g_, session(), "one_tensor");
  const auto reader = BundleReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<std::string> tensors;
  for (const std::string& name : (*reader)->names()) {
    const auto tensor = (*reader)->Read(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    tensors.push_back(absl::StrCat(name, " ", tensor->shape().ToString()));
  }
  EXPECT_EQ(tensors, RecordedStrings("partitioned/checkpoint"));
  const Tensor saved = (*reader)->Read("net/t").value();
  ExpectNear(Pattern({3, 2}, 1), saved.Slice(0, 3), "first part");
  ExpectNear(Pattern({2, 2}, 2), saved.Slice(3, 5), "second part");
}

TEST_F(PartitionedTest, IsRestoredIntoAnotherNumberOfParts) {
  const std::string path = SaveWhole("net/t", Pattern({5, 2}, 3));
  const PartitionedVariable table = Table({5, 2}, 3);
  const auto saver = Saver::Build(g_);
  ASSERT_TRUE(saver.ok()) << saver.status();
  const absl::Status restored = (*saver)->Restore(session(), path);
  ASSERT_TRUE(restored.ok()) << restored;
  ExpectNear(Pattern({5, 2}, 3), Run(WholeOf(g_, table)), "restored");
}

TEST_F(PartitionedTest, AveragesOfPartsArePartsOfTheAverage) {
  const PartitionedVariable table = Table({5, 2}, 2);
  ExponentialMovingAverage ema(0.5);
  ASSERT_TRUE(ema.Apply(g_).ok()) << g_.status();
  const ModelVariable* const average = ema.Average(table.parts[1]);
  ASSERT_NE(average, nullptr);
  ASSERT_TRUE(average->slice.has_value());
  EXPECT_EQ(average->slice->full_name, "net/t/ExponentialMovingAverage");
  EXPECT_EQ(average->slice->offset, (std::vector<int64_t>{3, 0}));
}

// The part that a variable is goes into a .meta file and comes back.
TEST_F(PartitionedTest, AMetaGraphKeepsTheSlices) {
  Table({5, 2}, 2);
  const auto bytes = MetaGraphBytes(g_.graph(), nullptr);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto imported = MetaGraphFromBytes(*bytes, StandardOps());
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->graph->variables().size(), 2u);
  const auto& slice = imported->graph->variables()[1].slice;
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->ToString(), "5 2 3,2:0,2");
  EXPECT_EQ(slice->full_name, "net/t");
}

}  // namespace
}  // namespace weir
