// Jobs whose authority is elected (distributed/election): it dies, is cut off, and comes back after others
// have taken its place; the store loses, delays and repeats.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/counting_job.h"
#include "tests/simulation/history.h"
#include "tests/simulation/world.h"

namespace weir {
namespace {

using ::testing::IsEmpty;
using Kind = Misfortune::Kind;

const TaskName kPs0{"ps", 0}, kPs1{"ps", 1}, kChief{"chief", 0};

struct ElectionTest : ::testing::Test {
  static CountingJobOptions Options() {
    CountingJobOptions options;
    options.elects = true;
    options.num_ps = 2;
    options.lease = absl::Seconds(3);
    options.last_step = 200;
    options.patience = options.lease;
    return options;
  }
  // Which ps is in office; -1: none.
  int InOffice() {
    const AuthorityRecord& record = job.store().stored().record;
    return record.term == 0 ? -1 : record.task.index;
  }
  // Lets something befall the ps that is in office, once training goes on.
  void BefallAuthority(Kind kind, absl::Duration length) {
    job.StartAll();
    ASSERT_TRUE(world.RunUntil([this] { return job.num_acknowledged() > 10; }, absl::Minutes(2)));
    first = InOffice();
    ASSERT_GE(first, 0);
    Befall(world, job,
           {{.kind = kind,
             .at = world.time() + absl::Milliseconds(1),
             .length = length,
             .first = {"ps", first},
             .second = {"ps", 1 - first}}});
  }

  World world{7};
  CountingJob job{world, Options()};
  int first = -1;
};

TEST_F(ElectionTest, OneOfThemIsElectedAndTheJobTrains) {
  job.StartAll();
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 1);
}

TEST_F(ElectionTest, AnAuthorityThatIsKilledHasASuccessor) {
  BefallAuthority(Kind::kKill, absl::Seconds(1));
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 2);
}

// It stays in the job, with its variables: ps keep their shards.
TEST_F(ElectionTest, AnAuthorityThatDoesNotReachTheStoreLeavesOfficeAndServesOn) {
  BefallAuthority(Kind::kStoreCut, absl::Seconds(12));
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 2);
  EXPECT_NE(InOffice(), first);
}

TEST_F(ElectionTest, AnAuthorityThatSleepsAndWakesAnswersNobodyAnyMore) {
  BefallAuthority(Kind::kPause, absl::Seconds(15));
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_GE(job.num_offices(), 2);
}

// Nobody could say that no other task has taken office.
TEST_F(ElectionTest, WithoutItsStoreTheJobPausesAndGoesOn) {
  BefallAuthority(Kind::kStoreDown, absl::Seconds(20));
  const int64_t before = job.num_acknowledged();
  world.RunUntil([] { return false; }, world.time() + absl::Seconds(19));
  const int64_t during = job.num_acknowledged();
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  // Steps of 50 ms and more, for 0.8 leases twice at most: the office, and the lease that was given at its
  // end.
  EXPECT_LE(during - before, 2 * (1.6 * 3 + 1) / 0.05);
  EXPECT_GE(job.num_offices(), 2);
}

// The one in office leaves it, and nobody is the authority for a lease.
TEST_F(ElectionTest, ARecordThatIsDeletedCostsALease) {
  BefallAuthority(Kind::kRecordGone, absl::Seconds(1));
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 2);
}

TEST_F(ElectionTest, AStoreThatIsWipedCostsALease) {
  BefallAuthority(Kind::kStoreAnew, absl::Seconds(1));
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 2);
}

// It would be in office at once if nobody waited: the one before is, by its clock, and cut off from the
// store.
TEST_F(ElectionTest, AProcessThatFindsNoRecordWaits) {
  BefallAuthority(Kind::kStoreCut, absl::Seconds(12));
  world.At(world.time() + absl::Milliseconds(10), [this] {
    job.store().BeginAnew();
    world.Kill(job.life({"ps", 1 - first}));
    job.Start({"ps", 1 - first});
  });
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
}

// A copy of an hour ago, as it were: a term that nobody knows any more.
TEST_F(ElectionTest, AStoreThatIsRestoredFromACopyElectsALaterTerm) {
  job.StartAll();
  ASSERT_TRUE(world.RunUntil([this] { return job.num_acknowledged() > 0; }, absl::Minutes(2)));
  const AuthorityStore::Stored copy = job.store().stored();
  ASSERT_TRUE(world.RunUntil([this] { return job.num_acknowledged() > 50; }, absl::Minutes(2)));
  world.Kill(job.life({"ps", InOffice()}));
  job.Start({"ps", copy.record.task.index});
  ASSERT_TRUE(world.RunUntil([this] { return job.num_offices() == 2; }, absl::Minutes(2)));
  job.store().Restore(copy);
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
}

// Somebody who knows of nothing has taken office meanwhile, and would be in it for good.
TEST_F(ElectionTest, ATermThatIsTooLowIsRaised) {
  BefallAuthority(Kind::kStoreAnew, absl::Seconds(1));
  AuthorityRecord stranger = {.term = 2, .task = {"ps", 0}, .candidate = 12, .beat = 1};
  std::function<void()> beat = [&] {
    const AuthorityRecord& last = job.store().stored().record;
    if (stranger.beat > 1 && last.term != stranger.term) return;
    const int64_t revision = 1'000'000 + static_cast<int64_t>(++stranger.beat);
    job.store().Restore({.revision = revision, .record = stranger, .store_revision = revision});
    world.At(world.time() + absl::Milliseconds(500), beat);
  };
  world.At(world.time() + absl::Milliseconds(2), beat);
  job.RunToTheEnd(absl::Minutes(10));
  EXPECT_THAT(job.Violations(), IsEmpty());
  EXPECT_EQ(job.num_offices(), 2);
}

// Both want to begin at the same time, and the store forgets the one that was first (30008181).
TEST(ElectionWipesTest, NoTwoOfficesHaveOneNumber) {
  NetworkOptions slow;
  slow.slow = 0.2;
  slow.long_delay = absl::Milliseconds(1500);
  CountingJobOptions options = ElectionTest::Options();
  options.last_step = 20;
  options.patience = 15 * slow.long_delay;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed, slow);
    CountingJob job(world, options, slow);
    job.StartAll();
    for (const int wipe : {1, 2}) {
      world.At(absl::Milliseconds(wipe * 20 * static_cast<int64_t>(seed)),
               [&job] { job.store().BeginAnew(); });
    }
    job.RunToTheEnd(absl::Minutes(20));
    EXPECT_THAT(job.Violations(), IsEmpty()) << "seed " << seed;
  }
}

struct ElectionHistoriesTest : ::testing::TestWithParam<int> {};

TEST_P(ElectionHistoriesTest, Hold) {
  constexpr int kSeeds = 100;
  const std::vector<Kind> kinds(std::begin(Misfortune::kEvery), std::end(Misfortune::kEvery));
  for (int i = 0; i < kSeeds; ++i) {
    const uint64_t seed = 3'000'000 + static_cast<uint64_t>(GetParam() * kSeeds + i);
    const Outcome outcome =
        RunHistory(DrawHistory(seed, kinds, /*elects=*/true), ScratchDirectory(testing::TempDir()));
    EXPECT_THAT(outcome.violations, IsEmpty()) << "seed " << seed;
  }
}

// What went wrong, each time for another reason:
// 3010469: paused after it had asked for an office, and again when it woke up, with the store out of reach, a
// ps took the first answer for that to the second question, and was in office beside its successor.
TEST(ElectionSeedsTest, Hold) {
  // There were no others yet.
  const std::vector<Kind> kinds(std::begin(Misfortune::kEvery), std::begin(Misfortune::kEvery) + 12);
  for (const uint64_t seed : {3'010'469}) {
    for (uint64_t order = 0; order < 20; ++order) {
      History history = DrawHistory(seed, kinds, /*elects=*/true);
      history.seed += order << 32;
      const Outcome outcome = RunHistory(history, ScratchDirectory(testing::TempDir()));
      EXPECT_THAT(outcome.violations, IsEmpty()) << "seed " << seed << ", order " << order;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, ElectionHistoriesTest, ::testing::Range(0, 4));

}  // namespace
}  // namespace weir
