// A short campaign: fixed seeds of each family (README.md).
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/faults/campaign/fault_run.h"
#include "tests/faults/campaign/machines.h"
#include "tests/faults/campaign/plan.h"

namespace weir {
namespace {

// Most of a run is waiting: several at a time do not disturb each other.
constexpr int kRunsAtATime = 4;

void RunSeeds(Family family, uint64_t first_seed, int count) {
  std::vector<Plan> plans;
  for (uint64_t seed = first_seed; static_cast<int>(plans.size()) < count; ++seed) {
    plans.push_back(DrawPlan(seed, family));
  }
  Surroundings surroundings(".", ::testing::TempDir());
  std::atomic<size_t> next{0};
  std::atomic<int> num_hit{0};
  absl::Mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < kRunsAtATime; ++i) {
    threads.emplace_back([&] {
      for (size_t number; (number = next++) < plans.size();) {
        const Outcome outcome = RunPlan(plans[number], surroundings);
        num_hit += outcome.was_hit ? 1 : 0;
        absl::MutexLock lock(&mutex);
        EXPECT_TRUE(outcome.violations.empty())
            << plans[number].ToString() << "\n  " << absl::StrJoin(outcome.violations, "\n  ")
            << "\n  logs: " << outcome.directory;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(num_hit, count * 3 / 4) << "too many victims had ended before";
}

TEST(CampaignTest, KilledProcesses) { RunSeeds(Family::kKill, 1, 40); }

TEST(CampaignTest, StoppedProcesses) { RunSeeds(Family::kStop, 1, 12); }

TEST(CampaignTest, TroubledLinks) { RunSeeds(Family::kNetwork, 1, 12); }

TEST(CampaignTest, TroubledMachines) {
  const absl::Status allowed = Machines::AreAllowed();
  if (!allowed.ok()) GTEST_SKIP() << "no network namespaces here: " << allowed.message();
  RunSeeds(Family::kMachine, 1, 16);
}

}  // namespace
}  // namespace weir
