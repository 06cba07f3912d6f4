// A thousand graphs that nobody thought of, and those seeds that once found a bug.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"
#include "tests/random_graphs/catalogue.h"
#include "tests/random_graphs/generator.h"
#include "tests/random_graphs/hunt.h"
#include "tests/random_graphs/interpreter.h"
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
  for (const uint64_t seed : {6u, 206u, 779u}) {
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

TEST(Catalogue, RowsAreOfOpsWithReferences) {
  for (const OpRow& row : AllRows()) {
    EXPECT_NE(StandardOps().Find(row.op), nullptr) << row.op;
    EXPECT_TRUE(HasReference(row.op)) << row.op;
  }
}

}  // namespace
}  // namespace weir::random_graphs
