#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/history.h"

namespace weir {
namespace {

using ::testing::IsEmpty;

// Where two texts begin to differ, with the lines around it.
std::string Difference(const std::string& one, const std::string& other) {
  size_t at = 0;
  while (at < one.size() && at < other.size() && one[at] == other[at]) ++at;
  const size_t begin = at > 600 ? at - 600 : 0;
  return absl::StrCat("one:\n", one.substr(begin, 1200), "\nthe other:\n", other.substr(begin, 1200));
}

TEST(CountingJobTest, NothingIsWrongOnAGoodNetwork) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = RunHistory({.seed = seed}, ScratchDirectory(testing::TempDir()));
    ASSERT_THAT(outcome.violations, IsEmpty()) << "seed " << seed;
    ASSERT_GE(outcome.num_acknowledged, 40);
  }
}

TEST(CountingJobTest, NothingIsWrongOnANetworkThatDelaysReordersRepeatsAndLoses) {
  for (uint64_t seed = 1; seed <= 180; ++seed) {
    History history = {.seed = seed, .network = BenignNetwork()};
    history.job.num_workers = 1 + static_cast<int>(seed % 2);
    const Outcome outcome = RunHistory(history, ScratchDirectory(testing::TempDir()));
    ASSERT_THAT(outcome.violations, IsEmpty()) << "seed " << seed;
    ASSERT_GE(outcome.num_acknowledged, 40);
  }
}

// Where hardly anything may be on its way, messages go one after the other, and nobody waits for good: not in
// steps that need tensors of two ps, nor when links break and a ps is started anew.
TEST(CountingJobTest, NothingIsWrongWhereOneMessageMayBeOnItsWay) {
  using Kind = Misfortune::Kind;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    History history = {.seed = seed, .network = BenignNetwork()};
    history.job.num_ps = 2;
    history.job.num_workers = 2;
    history.job.peer_limits = "inbound=1";
    if (seed % 4 == 1) history.job.sync_replicas = OnLoss::kWait, history.job.last_step = 20;
    const Kind kind = std::vector<Kind>{Kind::kFlap, Kind::kKill, Kind::kCutOneWay}[seed % 3];
    history.misfortunes = {{.kind = kind,
                            .at = absl::Milliseconds(300 + 13 * seed),
                            .length = absl::Milliseconds(700),
                            .first = {"ps", static_cast<int>(seed % 2)},
                            .second = {"worker", 0}}};
    const Outcome outcome = RunHistory(history, ScratchDirectory(testing::TempDir()));
    ASSERT_THAT(outcome.violations, IsEmpty()) << "seed " << seed;
  }
}

// A ps that ends by itself ends when all have trained and the chief has saved, whatever befell them.
TEST(CountingJobTest, NothingIsWrongWhereAPsEndsWhenTheJobIsOver) {
  using Kind = Misfortune::Kind;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    History history = DrawHistory(
        seed, {Kind::kFlap, Kind::kCut, Kind::kCutOneWay, Kind::kPause, Kind::kKill, Kind::kReplace});
    history.job.ps_end = true;
    const Outcome outcome = RunHistory(history, ScratchDirectory(testing::TempDir()));
    EXPECT_THAT(outcome.violations, IsEmpty()) << "seed " << seed;
  }
}

TEST(CountingJobTest, ASeedIsOneHistory) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const History history = DrawHistory(seed, {Misfortune::Kind::kFlap, Misfortune::Kind::kCut});
    const Outcome one = RunHistory(history, ScratchDirectory(testing::TempDir()), true);
    const Outcome other = RunHistory(history, ScratchDirectory(testing::TempDir()), true);
    ASSERT_EQ(one.trace_hash, other.trace_hash) << "seed " << seed << "\n"
                                                << Difference(one.trace, other.trace);
  }
}

}  // namespace
}  // namespace weir
