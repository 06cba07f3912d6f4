#include "kernels/cancellation.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

const absl::Status kReason = absl::CancelledError("enough");

TEST(CancellationTest, CallbacksRunOnceInTheOrderInWhichTheyCame) {
  Cancellation cancellation;
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) {
    cancellation.OnCancel([&ran, i](const absl::Status& reason) {
      EXPECT_EQ(reason, kReason);
      ran.push_back(i);
    });
  }
  cancellation.Cancel(kReason);
  cancellation.Cancel(absl::CancelledError("again"));
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  EXPECT_EQ(cancellation.reason(), kReason);
  EXPECT_EQ(cancellation.OnCancel([&](const absl::Status&) { ran.push_back(3); }), 0);
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
}

// What it would touch may be gone by then.
TEST(CancellationTest, WhatACallbackRemovesDoesNotRunAfterIt) {
  Cancellation cancellation;
  uint64_t second = 0;
  bool has_run = false;
  cancellation.OnCancel([&](const absl::Status&) { cancellation.Remove(second); });
  second = cancellation.OnCancel([&](const absl::Status&) { has_run = true; });
  cancellation.Cancel(kReason);
  EXPECT_FALSE(has_run);
}

TEST(CancellationTest, ACallbackOfATokenThatAnotherOnesCancelsMayRemoveThatOnes) {
  struct State {
    Cancellation outer, inner;
    uint64_t first = 0, last = 0;
    bool has_run = false;
    absl::Notification is_over;
  };
  // Shared with a thread that would wait for itself for ever.
  const auto state = std::make_shared<State>();
  state->first =
      state->outer.OnCancel([&state = *state](const absl::Status& why) { state.inner.Cancel(why); });
  state->last = state->outer.OnCancel([&state = *state](const absl::Status&) { state.has_run = true; });
  state->inner.OnCancel([&state = *state](const absl::Status&) {
    state.outer.Remove(state.first);
    state.outer.Remove(state.last);
  });
  std::thread([state] {
    state->outer.Cancel(kReason);
    state->is_over.Notify();
  }).detach();
  ASSERT_TRUE(state->is_over.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_FALSE(state->has_run);
}

// A step holds, in a callback, the last reference to what waits in another one.
TEST(CancellationTest, WhatIsRemovedMayRemoveAnotherOneWhenItIsDestroyed) {
  struct Waiting {
    Cancellation& cancellation;
    const uint64_t id;
    ~Waiting() { cancellation.Remove(id); }
  };
  struct State {
    Cancellation cancellation;
    absl::Notification is_over;
  };
  const auto state = std::make_shared<State>();
  Cancellation& cancellation = state->cancellation;
  const uint64_t below = cancellation.OnCancel([](const absl::Status&) {});
  const uint64_t above = cancellation.OnCancel(
      [waiting = std::shared_ptr<Waiting>(new Waiting{cancellation, below})](const absl::Status&) {});
  std::thread([state, above] {
    state->cancellation.Remove(above);
    state->is_over.Notify();
  }).detach();
  ASSERT_TRUE(state->is_over.WaitForNotificationWithTimeout(absl::Seconds(60)));
  bool has_run = false;
  cancellation.OnCancel([&](const absl::Status&) { has_run = true; });
  cancellation.Cancel(kReason);
  EXPECT_TRUE(has_run);
}

TEST(CancellationTest, ATokenThatIsNewAgainHasForgottenCallbacks) {
  Cancellation cancellation;
  int num_runs = 0;
  const uint64_t old = cancellation.OnCancel([&](const absl::Status&) { num_runs += 100; });
  cancellation.Reset();
  cancellation.OnCancel([&](const absl::Status&) { ++num_runs; });
  cancellation.Remove(old);  // another one's id
  cancellation.Cancel(kReason);
  EXPECT_EQ(num_runs, 1);
}

TEST(CancellationTest, RemoveWaitsForACallbackThatRunsOnAnotherThread) {
  Cancellation cancellation;
  absl::Notification runs, may_end;
  bool has_ended = false;  // of the callback; ordered by Remove
  const uint64_t id = cancellation.OnCancel([&](const absl::Status&) {
    runs.Notify();
    may_end.WaitForNotification();
    has_ended = true;
  });
  std::thread canceller([&] { cancellation.Cancel(kReason); });
  runs.WaitForNotification();
  std::thread releaser([&] { may_end.Notify(); });
  cancellation.Remove(id);
  EXPECT_TRUE(has_ended);
  canceller.join();
  releaser.join();
}

}  // namespace
}  // namespace weir
