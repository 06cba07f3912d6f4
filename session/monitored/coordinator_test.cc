#include "session/monitored/coordinator.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

absl::Status RunUntilStopped(Coordinator& coordinator) {
  coordinator.WaitForStop(absl::InfiniteDuration());
  return absl::OkStatus();
}

TEST(CoordinatorTest, TheFirstErrorStopsAllThreadsAndIsJoins) {
  Coordinator coordinator;
  coordinator.Start("waits", RunUntilStopped);
  coordinator.Start("fails later", [](Coordinator& coordinator) {
    coordinator.WaitForStop(absl::InfiniteDuration());
    return absl::InternalError("a consequence");
  });
  EXPECT_FALSE(coordinator.should_stop());
  EXPECT_FALSE(coordinator.WaitForStop(absl::ZeroDuration()));
  coordinator.Start("fails", [](Coordinator&) { return absl::DataLossError("the cause"); });
  EXPECT_EQ(coordinator.Join(), absl::DataLossError("the cause"));
  EXPECT_TRUE(coordinator.should_stop());
  coordinator.ClearStop();
  EXPECT_FALSE(coordinator.should_stop());
  EXPECT_TRUE(coordinator.status().ok());
}

TEST(CoordinatorTest, JoinWaitsForThreadsThatEndByThemselves) {
  Coordinator coordinator;
  std::atomic<int> num_ended{0};
  for (int i = 0; i < 3; ++i) {
    coordinator.Start("counts", [&num_ended](Coordinator&) {
      ++num_ended;
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(coordinator.Join().ok());
  EXPECT_EQ(num_ended, 3);
  EXPECT_FALSE(coordinator.should_stop()) << "nobody asked for it";
}

TEST(CoordinatorTest, TheEndOfTheInputIsNoError) {
  Coordinator coordinator;
  coordinator.Start("reads", [](Coordinator&) { return absl::OutOfRangeError("read all"); });
  coordinator.Start("waits", RunUntilStopped);
  EXPECT_TRUE(coordinator.Join().ok());
  EXPECT_TRUE(coordinator.should_stop());
}

TEST(CoordinatorTest, ThreadsThatDoNotStopAreNamedAfterTheGracePeriod) {
  // Not on the stack: the threads outlive the coordinator.
  auto release = std::make_shared<absl::Notification>();
  auto ended = std::make_shared<absl::Notification>();
  {
    Coordinator coordinator;
    coordinator.Start("stubborn", [release, ended](Coordinator& coordinator) {
      release->WaitForNotification();
      EXPECT_TRUE(coordinator.should_stop()) << "its handle lives as long as it does";
      ended->Notify();
      return absl::OkStatus();
    });
    coordinator.Start("obedient", RunUntilStopped);
    coordinator.RequestStop();
    const absl::Status status = coordinator.Join({.grace_period = absl::Milliseconds(1)});
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), HasSubstr("stubborn"));
    EXPECT_TRUE(coordinator.Join().ok()) << "it is not waited for again";
  }
  release->Notify();
  ended->WaitForNotification();
}

TEST(CoordinatorTest, ALoopRunsUntilItIsStopped) {
  Coordinator coordinator;
  absl::Notification often;
  int count = 0;
  coordinator.StartLoop("loops", absl::ZeroDuration(), [&] {
    if (++count == 100) often.Notify();
    return absl::OkStatus();
  });
  often.WaitForNotification();
  coordinator.RequestStop();
  EXPECT_TRUE(coordinator.Join().ok());
  coordinator.ClearStop();
  coordinator.StartLoop("fails", absl::ZeroDuration(), [] { return absl::InternalError("once"); });
  EXPECT_EQ(coordinator.Join().message(), "once");
}

TEST(CoordinatorTest, AThreadWithoutAFunctionIsAnError) {
  Coordinator coordinator;
  coordinator.Start("reader", nullptr);
  EXPECT_EQ(coordinator.Join().message(), "the thread 'reader' has no function");
  coordinator.ClearStop();
  coordinator.StartLoop("pings", absl::ZeroDuration(), nullptr);
  EXPECT_EQ(coordinator.Join().message(), "the thread 'pings' has no function");
}

TEST(CoordinatorTest, ASystemWithoutThreadsIsAnErrorThatStopsTheOthers) {
  Coordinator coordinator;
  coordinator.Start("waits", RunUntilStopped);
  {
    const NoMoreThreads no_more;
    coordinator.Start("reader", RunUntilStopped);
  }
  const absl::Status status = coordinator.Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the thread 'reader': the system gives"));
}

TEST(CoordinatorTest, WhatAThreadThrowsIsItsError) {
  Coordinator coordinator;
  coordinator.Start("waits", RunUntilStopped);
  coordinator.Start("parser", [](Coordinator&) -> absl::Status { throw std::out_of_range("column 7"); });
  const absl::Status status = coordinator.Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(status.message(), "the thread 'parser' threw an exception: column 7");
  coordinator.ClearStop();
  coordinator.StartLoop("pings", absl::ZeroDuration(), []() -> absl::Status { throw 7; });
  EXPECT_EQ(coordinator.Join().message(), "the thread 'pings' threw an exception");
}

// What a person reads while a session closes.
TEST(CoordinatorTest, ThreadsThatDoNotStopAreNamed) {
  Scheduler scheduler(1);
  SimulatedEnvironment environment(scheduler, "one");
  Coordinator coordinator(environment);
  const absl::Time begin = environment.Now();
  coordinator.Start("slow", [&](Coordinator&) {
    Coordinator never(environment);
    never.WaitForStop(absl::Seconds(24));
    return absl::OkStatus();
  });
  coordinator.Start("quick", RunUntilStopped);
  coordinator.RequestStop();
  testing::internal::CaptureStderr();
  const auto join = environment.StartThread([&] {
    EXPECT_FALSE(coordinator.AwaitThreads(absl::Seconds(15)));
    EXPECT_TRUE(coordinator.Join({.grace_period = absl::Minutes(1)}).ok());
  });
  (*join)->Join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weir: the end of training waits for the threads 'slow' (for 10s, 5s left)\n");
  EXPECT_EQ(environment.Now(), begin + absl::Seconds(24));
}

}  // namespace
}  // namespace weir
