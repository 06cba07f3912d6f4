#include "distributed/launch/worker_pool.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using End = WorkerPool::End;

const absl::Time kBegin = absl::FromUnixSeconds(1000);

absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

std::vector<std::string> StartsOf(const WorkerPool::Plan& plan) {
  std::vector<std::string> texts;
  for (const WorkerPool::Start& start : plan.starts) {
    texts.push_back(std::to_string(start.index) + "@" + start.host);
  }
  return texts;
}

TEST(WorkerPool, FollowsTheSlotsThatHostsHave) {
  WorkerPool pool({.min_workers = 1, .max_workers = 4, .hosts_may_change = true});
  pool.SetHosts({{"a", 1}});
  pool.Begin({"a"}, kBegin);
  EXPECT_THAT(StartsOf(pool.Next(At(1))), IsEmpty());
  pool.SetHosts({{"a", 2}, {"b", 9}});
  EXPECT_THAT(StartsOf(pool.Next(At(2))), ElementsAre("1@a", "2@b", "3@b")) << "no more than four";
  pool.SetHosts({{"a", 1}, {"b", 1}});
  EXPECT_THAT(pool.Next(At(3)).stops, ElementsAre(1, 3)) << "the last of each host";
  EXPECT_THAT(pool.Next(At(4)).stops, IsEmpty()) << "they were told";
  EXPECT_EQ(pool.num_running(), 2);
  // Who is about to leave has its slot until then.
  pool.SetHosts({{"a", 2}, {"b", 1}});
  EXPECT_THAT(StartsOf(pool.Next(At(5))), IsEmpty());
  pool.OnEnded(1, End::kTold, At(6));
  EXPECT_THAT(StartsOf(pool.Next(At(6))), ElementsAre("1@a"));
  // The chief stays where it is.
  pool.OnEnded(3, End::kTold, At(7));
  pool.SetHosts({});
  EXPECT_THAT(pool.Next(At(7)).stops, ElementsAre(2, 1));
  EXPECT_EQ(pool.num_running(), 1);
}

TEST(WorkerPool, WhoTheClusterSpecNamesComesBackOnItsHostOnly) {
  WorkerPool pool({.min_workers = 1, .max_workers = 3});
  pool.SetHosts({{"a", 1}, {"b", 1}, {"c", 1}});
  pool.Begin({"a", "b", "c"}, kBegin);
  pool.OnEnded(1, End::kTold, At(1));
  pool.OnEnded(2, End::kTold, At(1));
  pool.SetHosts({{"a", 1}, {"c", 2}});
  EXPECT_THAT(StartsOf(pool.Next(At(1))), ElementsAre("2@c", "3@c"));
}

TEST(WorkerPool, AHostCoolsDownAfterEachFailureForLonger) {
  WorkerPool pool({.min_workers = 1, .max_workers = 2, .reset_limit = 3, .cooldown = absl::Seconds(2)});
  pool.SetHosts({{"a", 2}});
  pool.Begin({"a", "a"}, kBegin);
  pool.OnEnded(1, End::kAgain, At(10));
  EXPECT_THAT(StartsOf(pool.Next(At(10))), IsEmpty());
  EXPECT_EQ(pool.next_time(), At(12));
  EXPECT_THAT(StartsOf(pool.Next(At(12))), ElementsAre("1@a"));
  pool.OnEnded(1, End::kAgain, At(13));
  EXPECT_THAT(StartsOf(pool.Next(At(16.9))), IsEmpty());
  EXPECT_THAT(StartsOf(pool.Next(At(17))), ElementsAre("1@a"));
  // One that has worked for longer than any cooldown is not another failure in a row.
  pool.OnEnded(1, End::kAgain, At(400));
  EXPECT_THAT(StartsOf(pool.Next(At(402))), ElementsAre("1@a"));
}

// Hosts that are taken away for days, and are tried in vain before the script leaves them out.
TEST(WorkerPool, OnlyFailuresThatComeSoonReachTheLimit) {
  WorkerPool pool({.min_workers = 1, .max_workers = 2, .reset_limit = 3, .cooldown = absl::Seconds(2)});
  pool.SetHosts({{"a", 2}});
  pool.Begin({"a", "a"}, kBegin);
  absl::Time now = kBegin;
  for (int i = 0; i < 100; ++i) {
    now += absl::Hours(1);
    pool.OnEnded(1, End::kCutOff, now);
    now = pool.cools_until("a");
    ASSERT_THAT(StartsOf(pool.Next(now)), ElementsAre("1@a"));
    pool.OnEnded(1, End::kCutOff, now += absl::Seconds(1));
    now = pool.cools_until("a");
    ASSERT_THAT(StartsOf(pool.Next(now)), ElementsAre("1@a"));
    ASSERT_EQ(pool.WhyGivenUp(now), "") << i;
  }
  for (int i = 0; i < 2; ++i) {
    pool.OnEnded(1, End::kAgain, now += absl::Seconds(1));
    EXPECT_EQ(pool.WhyGivenUp(now), "");
    now = pool.cools_until("a");
    ASSERT_THAT(StartsOf(pool.Next(now)), ElementsAre("1@a"));
  }
  pool.OnEnded(1, End::kAgain, now += absl::Seconds(1));
  EXPECT_EQ(pool.WhyGivenUp(now), "workers have failed 4 times (--reset_limit=3)");
}

// What ran there may still have its port: the next one cannot listen, and says so with a small exit code.
TEST(WorkerPool, WhereAConnectionWasLostWhatFailsIsTriedAgain) {
  WorkerPool pool(
      {.min_workers = 1, .max_workers = 2, .cooldown = absl::Seconds(1), .cut_off_pause = absl::Seconds(31)});
  pool.SetHosts({{"a", 1}, {"b", 1}});
  pool.Begin({"a", "b"}, kBegin);
  EXPECT_EQ(pool.OnEnded(1, End::kCutOff, At(10)), End::kCutOff);
  EXPECT_THAT(StartsOf(pool.Next(At(40.9))), IsEmpty());
  EXPECT_THAT(StartsOf(pool.Next(At(41))), ElementsAre("1@b"));
  EXPECT_EQ(pool.OnEnded(1, End::kBroken, At(42)), End::kAgain);
  EXPECT_THAT(StartsOf(pool.Next(pool.cools_until("b"))), ElementsAre("1@b"));
  // One that has worked there for long had its port.
  EXPECT_EQ(pool.OnEnded(1, End::kBroken, At(1000)), End::kBroken);
  EXPECT_THAT(StartsOf(pool.Next(At(2000))), IsEmpty());
}

TEST(WorkerPool, WhoWasToldInVainMayStillHaveItsPort) {
  WorkerPool pool({.min_workers = 1,
                   .max_workers = 2,
                   .cooldown = absl::Seconds(1),
                   .cut_off_pause = absl::Seconds(31),
                   .hosts_may_change = true});
  pool.SetHosts({{"a", 1}, {"b", 1}});
  pool.Begin({"a", "b"}, kBegin);
  pool.SetHosts({{"a", 1}});
  EXPECT_THAT(pool.Next(At(1)).stops, ElementsAre(1));
  EXPECT_EQ(pool.OnEnded(1, End::kToldInVain, At(10)), End::kToldInVain);
  EXPECT_EQ(pool.num_resets(), 0);
  pool.SetHosts({{"a", 1}, {"b", 1}});
  EXPECT_THAT(StartsOf(pool.Next(At(40.9))), IsEmpty());
  EXPECT_THAT(StartsOf(pool.Next(At(41))), ElementsAre("1@b"));
  EXPECT_EQ(pool.OnEnded(1, End::kBroken, At(42)), End::kAgain);
}

TEST(WorkerPool, AnEmptyPlaceIsTheFirstSlotToGo) {
  WorkerPool pool({.min_workers = 1, .max_workers = 4, .hosts_may_change = true});
  pool.SetHosts({{"a", 3}});
  pool.Begin({"a", "a", "a"}, kBegin);
  pool.OnEnded(2, End::kBroken, At(1));
  pool.SetHosts({{"a", 2}});
  EXPECT_THAT(pool.Next(At(2)).stops, IsEmpty());
  EXPECT_EQ(pool.num_running(), 2);
  // Another machine of that name.
  pool.SetHosts({{"a", 3}});
  EXPECT_THAT(StartsOf(pool.Next(At(3))), ElementsAre("2@a"));
}

TEST(WorkerPool, WhoWasStartedLastIsToldFirst) {
  WorkerPool pool({.min_workers = 1, .max_workers = 4, .hosts_may_change = true});
  pool.SetHosts({{"a", 3}});
  pool.Begin({"a", "a", "a"}, kBegin);
  pool.OnEnded(1, End::kAgain, At(10));
  EXPECT_THAT(StartsOf(pool.Next(At(11))), ElementsAre("1@a"));
  pool.SetHosts({{"a", 2}});
  EXPECT_THAT(pool.Next(At(12)).stops, ElementsAre(1));
}

TEST(WorkerPool, TheLongestCooldownIsBounded) {
  WorkerPool pool({.min_workers = 1, .max_workers = 2, .cooldown = absl::Seconds(1)});
  pool.SetHosts({{"a", 2}});
  pool.Begin({"a", "a"}, kBegin);
  absl::Time now = kBegin;
  for (int i = 0; i < 60; ++i) {
    pool.OnEnded(1, End::kAgain, now);
    EXPECT_LE(pool.cools_until("a") - now, absl::Seconds(64));
    now = pool.cools_until("a");
    ASSERT_THAT(StartsOf(pool.Next(now)), ElementsAre("1@a"));
  }
  EXPECT_EQ(pool.cools_until("a"), now);
}

TEST(WorkerPool, ThePlaceOfOneThatFailedForGoodStaysEmpty) {
  WorkerPool pool({.min_workers = 2, .max_workers = 3, .patience = absl::Seconds(30)});
  pool.SetHosts({{"a", 3}});
  pool.Begin({"a", "a", "a"}, kBegin);
  pool.OnEnded(2, End::kBroken, At(1));
  EXPECT_THAT(StartsOf(pool.Next(At(1))), IsEmpty());
  EXPECT_EQ(pool.WhyGivenUp(At(1)), "");
  pool.OnEnded(1, End::kBroken, At(2));
  pool.Next(At(2));
  EXPECT_THAT(pool.WhyGivenUp(At(2)), HasSubstr("1 workers run, and --min_workers=2 are needed; the others"));
}

TEST(WorkerPool, TooFewAreWaitedForWhereHostsMayCome) {
  WorkerPool pool(
      {.min_workers = 2, .max_workers = 3, .patience = absl::Seconds(30), .hosts_may_change = true});
  pool.SetHosts({{"a", 1}, {"b", 1}});
  pool.Begin({"a", "b"}, kBegin);
  pool.SetHosts({{"a", 1}});
  EXPECT_THAT(pool.Next(At(1)).stops, ElementsAre(1));
  pool.OnEnded(1, End::kTold, At(2));
  pool.Next(At(2));
  EXPECT_EQ(pool.WhyGivenUp(At(30)), "");
  EXPECT_EQ(pool.next_time(), At(31));
  EXPECT_THAT(pool.WhyGivenUp(At(31)), HasSubstr("are needed, for 30s"));
  pool.SetHosts({{"a", 1}, {"c", 1}});
  EXPECT_THAT(StartsOf(pool.Next(At(32))), ElementsAre("2@c"));
  EXPECT_EQ(pool.WhyGivenUp(At(32)), "");
}

TEST(WorkerPool, NobodyIsStartedWhenTheTrainingIsOver) {
  WorkerPool pool({.min_workers = 2, .max_workers = 3});
  pool.SetHosts({{"a", 3}});
  pool.Begin({"a", "a", "a"}, kBegin);
  pool.OnEnded(2, End::kDone, At(1));
  pool.OnEnded(1, End::kAgain, At(1));
  EXPECT_THAT(StartsOf(pool.Next(At(100))), IsEmpty());
  EXPECT_EQ(pool.WhyGivenUp(At(1000)), "");
}

}  // namespace
}  // namespace weir
