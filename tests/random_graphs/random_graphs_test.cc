// A thousand graphs that nobody thought of, and those seeds that once found a bug.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"
#include "tests/random_graphs/catalogue.h"
#include "tests/random_graphs/generator.h"
#include "tests/random_graphs/hunt.h"
#include "tests/random_graphs/interpreter.h"
#include "tests/random_graphs/mutable_variables.h"
#include "tests/random_graphs/print.h"

namespace weir::random_graphs {
namespace {

constexpr uint64_t kGraphsPerTest = 25;

Runner& SharedRunner() {
  static Runner* const runner = new Runner;  // its threads outlive the tests of this process
  return *runner;
}

class ThousandGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ThousandGraphs, GiveWhatTheInterpreterGives) {
  for (uint64_t i = 0; i < kGraphsPerTest; ++i) {
    const auto finding = Hunt(GetParam() * kGraphsPerTest + i, {}, SharedRunner());
    EXPECT_FALSE(finding) << *finding;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ThousandGraphs, ::testing::Range<uint64_t>(0, 1000 / kGraphsPerTest));

// Another catalogue gives other graphs for a seed, so each bug has a test of its own as well.
TEST(RandomGraphs, SeedsThatFoundSomethingFindItNoMore) {
  for (const uint64_t seed : {6u, 206u, 779u, 848u}) {
    const auto finding = Hunt(seed, {}, SharedRunner());
    EXPECT_FALSE(finding) << *finding;
  }
}

TEST(RandomGraphs, ASeedGivesTheSameGraph) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto first = Generate(seed), second = Generate(seed);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(PrintCase(*first), PrintCase(*second));
  }
}

// A call that Weir refuses ends the graph, wherever it is drawn: also in branches and in the bodies of loops.
TEST(RandomGraphs, ARefusedCallIsAnError) {
  GeneratorOptions options = {.rows = AllRows()};
  const auto draw_vectors = [](Pool& pool, DType dtype) -> std::optional<OpCall> {
    const Output x = pool.OfRank(dtype, 1).output;
    if (!x.shape().has_rank()) return std::nullopt;  // only a step could refuse it
    return OpCall{{x, x}};
  };
  options.rows.push_back({"MatMul", {DType::kFloat32}, draw_vectors, 60});
  int num_refused = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto graph_case = Generate(seed, options);
    if (graph_case.ok()) continue;
    EXPECT_EQ(graph_case.status().code(), absl::StatusCode::kInvalidArgument) << graph_case.status();
    ++num_refused;
  }
  EXPECT_GT(num_refused, 75);
}

// A gradient that nobody has written ends a graph too, and nobody would see it.
TEST(RandomGraphs, NoGraphIsLostToAMissingGradient) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto graph_case = Generate(seed);
    EXPECT_TRUE(graph_case.ok()) << "seed " << seed << ": " << graph_case.status();
  }
}

TEST(Catalogue, OpsOnVariablesHaveReferences) {
  for (const std::string& op : MutableVariables::Ops()) {
    EXPECT_NE(StandardOps().Find(op), nullptr) << op;
    EXPECT_TRUE(HasReference(op)) << op;
  }
}

TEST(Catalogue, RowsAreOfOpsWithReferences) {
  for (const OpRow& row : AllRows()) {
    EXPECT_NE(StandardOps().Find(row.op), nullptr) << row.op;
    EXPECT_TRUE(HasReference(row.op)) << row.op;
  }
}

}  // namespace
}  // namespace weir::random_graphs
