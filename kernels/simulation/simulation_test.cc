#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kSecond = absl::Seconds(1);

// A flag that a thread waits for.
struct Flag {
  absl::Mutex mutex;
  bool is_set = false;

  void Set() {
    absl::MutexLock lock(&mutex);
    is_set = true;
  }
  bool Await(Environment& environment, absl::Time deadline = absl::InfiniteFuture()) {
    absl::MutexLock lock(&mutex);
    return environment.Await(mutex, absl::Condition(&is_set), deadline);
  }
};

struct SimulationTest : ::testing::Test {
  Scheduler scheduler{1};
  SimulatedEnvironment environment{scheduler, "one"};
  SimulatedEnvironment other{scheduler, "other"};
  const absl::Time begin = scheduler.now();
  std::vector<std::string> log;

  void Log(absl::string_view what) {
    log.push_back(absl::StrCat(what, " ", absl::ToInt64Seconds(environment.Now() - begin)));
  }
};

TEST_F(SimulationTest, TimePassesOnlyWhenNothingCanRun) {
  Flag flag;
  const auto timers = environment.MakeTimers();
  const auto started = environment.StartThread([&] {
    Log("begins");
    EXPECT_FALSE(flag.Await(environment, begin + 3 * kSecond));
    Log("late");
    EXPECT_TRUE(flag.Await(environment, begin + 100 * kSecond));
    Log("told");
  });
  timers->At(begin + 7 * kSecond, [&] {
    Log("rings");
    flag.Set();
  });
  const auto forgotten = timers->At(begin + 2 * kSecond, [&] { Log("is forgotten"); });
  EXPECT_TRUE(timers->Forget(forgotten));
  EXPECT_FALSE(timers->Forget(forgotten));
  (*started)->Join();
  EXPECT_THAT(log, ElementsAre("begins 0", "late 3", "rings 7", "told 7"));
}

TEST_F(SimulationTest, AProcessThatIsPausedDoesNothingAndIsLateAfterwards) {
  const auto timers = environment.MakeTimers();
  timers->At(begin + kSecond, [&] { Log("rings"); });
  Flag never;
  const auto started = environment.StartThread([&] {
    never.Await(environment, begin + 2 * kSecond);
    Log("wakes");
  });
  const auto others = other.MakeTimers();
  others->At(begin + 3 * kSecond, [&] { Log("other"); });
  environment.process().is_paused = true;
  scheduler.RunFor(10 * kSecond);
  EXPECT_THAT(log, ElementsAre("other 3"));
  EXPECT_THAT(scheduler.DescribeThreads(), HasSubstr("thread 1 of one (paused)"));
  environment.process().is_paused = false;
  scheduler.RunFor(kSecond);
  EXPECT_THAT(log, ::testing::UnorderedElementsAre("other 3", "rings 10", "wakes 10"));
}

TEST_F(SimulationTest, WorkThatMayWaitIsBoundedAndWaitedFor) {
  auto threads = environment.MakeThreads(1, 2).value();
  Flag flag;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(threads->Block([&] { flag.Await(environment); }).ok());
  EXPECT_EQ(threads->Block([] {}).code(), absl::StatusCode::kResourceExhausted);
  threads->At(begin + kSecond, [&] { flag.Set(); });
  scheduler.RunFor(kSecond);
  threads = nullptr;
  EXPECT_EQ(scheduler.now(), begin + kSecond);
}

TEST_F(SimulationTest, TimersThatAreGoneDoNotRing) {
  {
    const auto timers = environment.MakeTimers();
    timers->At(begin + kSecond, [&] { Log("rings"); });
  }
  scheduler.RunFor(5 * kSecond);
  EXPECT_TRUE(log.empty());
}

// Two threads that take turns, by themselves.
std::string OrderOf(uint64_t seed, uint64_t* hash) {
  Scheduler scheduler(seed);
  SimulatedEnvironment environment(scheduler, "one");
  Flag never;
  std::string order;
  for (const char name : {'a', 'b', 'c'}) {
    const auto thread = environment.StartThread([&, name] {
      for (int i = 0; i < 5; ++i) {
        order += name;
        const absl::Duration pause = absl::Milliseconds(environment.Random() % 3);
        never.Await(environment, environment.Now() + pause);
      }
    });
    EXPECT_TRUE(thread.ok());
  }
  scheduler.RunFor(kSecond);
  *hash = scheduler.trace_hash();
  return order;
}

TEST(SchedulerTest, ASeedIsAnOrder) {
  uint64_t first = 0, again = 0, other = 0;
  const std::string order = OrderOf(5, &first);
  EXPECT_EQ(order.size(), 15);
  EXPECT_EQ(OrderOf(5, &again), order);
  EXPECT_EQ(first, again);
  EXPECT_NE(OrderOf(6, &other), order);
  EXPECT_NE(first, other);
}

TEST(SchedulerDeathTest, WhatMustNotWaitAborts) {
  const auto wait_in_a_timer = [] {
    Scheduler scheduler(1);
    SimulatedEnvironment environment(scheduler, "one");
    Flag flag;
    const auto timers = environment.MakeTimers();
    timers->At(scheduler.now(), [&] { flag.Await(environment); });
    scheduler.RunOne();
  };
  EXPECT_DEATH(wait_in_a_timer(), "waits for something, on the thread that runs everything");
}

}  // namespace
}  // namespace weir
