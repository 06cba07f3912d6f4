// Workers that join a simulated job and leave it, by seed: they come at any time, stay, leave, are killed and
// come back, while misfortunes befall the tasks of the cluster spec.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/counting_job.h"
#include "tests/simulation/history.h"
#include "tests/simulation/misfortune.h"
#include "tests/simulation/world.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using Kind = Misfortune::Kind;

constexpr int kNumGuests = 3;
constexpr absl::Duration kLimit = absl::Minutes(20);

absl::Duration Draw(std::mt19937_64& random, absl::Duration longest) {
  return longest * static_cast<int64_t>(random() % 1000) / 1000;
}

// What a guest does: comes, and then stays, leaves, is killed, or is killed and comes back.
std::string PlanGuest(World& world, CountingJob& job, const TaskName& guest, std::mt19937_64& random) {
  const absl::Duration comes = Draw(random, absl::Seconds(4));
  const absl::Duration ends = comes + absl::Milliseconds(1) + Draw(random, absl::Seconds(4));
  const absl::Duration pause = absl::Milliseconds(1) + Draw(random, absl::Seconds(3));
  const int what = static_cast<int>(random() % 4);
  world.At(comes, [&job, guest] { job.Start(guest); });
  std::string plan = absl::StrCat(guest.ToString(), " comes at ", absl::FormatDuration(comes));
  if (what == 0) return plan;
  if (what == 1) {
    world.At(ends, [&job, guest] { job.TellToLeave(guest); });
    return absl::StrCat(plan, ", leaves at ", absl::FormatDuration(ends));
  }
  world.At(ends, [&world, &job, guest, what, pause] {
    World::Life& life = job.life(guest);
    world.Kill(life);
    if (what == 3 && life.is_killed()) job.StartLater(guest, life, pause);
  });
  absl::StrAppend(&plan, ", is killed at ", absl::FormatDuration(ends));
  return what == 2 ? plan : absl::StrCat(plan, ", comes back after ", absl::FormatDuration(pause));
}

struct ElasticOutcome {
  std::vector<std::string> violations;
  std::string plan;
  int64_t num_by_guests = 0;
};

ElasticOutcome RunSeed(uint64_t seed, const std::vector<Kind>& kinds) {
  std::mt19937_64 random(seed);
  History history = {.seed = seed};
  if (!kinds.empty()) history = DrawHistory(seed, kinds);
  if (seed % 2 == 0) history.network = BenignNetwork();
  history.job.sync_replicas.reset();  // a SyncModel's groups are not elastic
  history.job.num_guests = kNumGuests;
  history.job.last_step = 300;
  if (seed % 3 == 0) history.job.num_ps = 2;
  // Of the guests one waits for another one to end.
  if (seed % 5 == 0) history.job.num_places = 1 + history.job.num_workers + kNumGuests - 1;
  ElasticOutcome outcome;
  World world(seed, history.network);
  CountingJob job(world, history.job);
  job.StartAll();
  std::vector<std::string> plans;
  for (int i = 0; i < kNumGuests; ++i) {
    const TaskName guest{"worker", history.job.num_workers + i};
    plans.push_back(PlanGuest(world, job, guest, random));
  }
  for (const Misfortune& misfortune : history.misfortunes) plans.push_back(misfortune.ToString());
  Befall(world, job, history.misfortunes);
  job.RunToTheEnd(kLimit);
  outcome.plan = absl::StrJoin(plans, "\n");
  outcome.violations = job.Violations();
  for (int i = 0; i < kNumGuests; ++i) {
    outcome.num_by_guests += job.num_acknowledged({"worker", history.job.num_workers + i});
  }
  return outcome;
}

// WEIR_ELASTIC_SEEDS=N asks for more, from seed $WEIR_ELASTIC_FIRST on.
void RunSeeds(int num_seeds, const std::vector<Kind>& kinds) {
  if (const char* more = std::getenv("WEIR_ELASTIC_SEEDS"); more != nullptr) num_seeds = std::atoi(more);
  const char* const first = std::getenv("WEIR_ELASTIC_FIRST");
  const uint64_t begin = first == nullptr ? 1 : static_cast<uint64_t>(std::atoll(first));
  int64_t num_by_guests = 0;
  for (uint64_t seed = begin; seed < begin + static_cast<uint64_t>(num_seeds); ++seed) {
    const ElasticOutcome outcome = RunSeed(seed, kinds);
    EXPECT_THAT(outcome.violations, IsEmpty()) << "seed " << seed << "\n" << outcome.plan;
    num_by_guests += outcome.num_by_guests;
  }
  EXPECT_GT(num_by_guests, 5 * num_seeds) << "guests have trained";
}

TEST(ElasticTest, GuestsComeAndGo) { RunSeeds(60, {}); }

TEST(ElasticTest, GuestsComeAndGoWhileTheNetworkFails) {
  RunSeeds(60, {Kind::kFlap, Kind::kFlapOneWay, Kind::kCut, Kind::kCutOneWay});
}

TEST(ElasticTest, GuestsComeAndGoWhileTasksAreStoppedAndReplaced) {
  RunSeeds(60, {Kind::kPause, Kind::kReplace});
}

TEST(ElasticTest, GuestsComeAndGoWhileTasksAreKilled) { RunSeeds(60, {Kind::kKill}); }

}  // namespace
}  // namespace weir
