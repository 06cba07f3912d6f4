#include "kernels/cancellable_wait.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

const absl::Status kReason = absl::AbortedError("the step is over");

// One thing, for whoever comes first.
struct Room {
  absl::Mutex mutex;
  bool is_taken ABSL_GUARDED_BY(mutex) = true;

  absl::Status Take(Cancellation& cancellation) {
    return AwaitUnlessCancelled(
        RealEnvironment(), mutex, cancellation, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !is_taken; },
        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { is_taken = true; });
  }
  void Leave() {
    absl::MutexLock lock(&mutex);
    is_taken = false;
  }
  bool IsTaken() {
    absl::MutexLock lock(&mutex);
    return is_taken;
  }
};

TEST(CancellableWaitTest, TakesWhatItWaitedFor) {
  Room room;
  Cancellation cancellation;
  std::thread other([&] { room.Leave(); });
  EXPECT_EQ(room.Take(cancellation), absl::OkStatus());
  other.join();
  EXPECT_TRUE(room.IsTaken());
}

TEST(CancellableWaitTest, EndsWithTheStep) {
  Room room;
  Cancellation cancellation;
  std::thread other([&] { cancellation.Cancel(kReason); });
  EXPECT_EQ(room.Take(cancellation), kReason);
  other.join();
}

TEST(CancellableWaitTest, AStepThatIsOverTakesNothing) {
  Room room;
  room.Leave();
  Cancellation cancellation;
  cancellation.Cancel(kReason);
  EXPECT_EQ(room.Take(cancellation), kReason);
  EXPECT_FALSE(room.IsTaken());
}

TEST(CancellableWaitTest, AStepWhoseOtherCallbacksStillRunTakesNothing) {
  Room room;
  Cancellation cancellation;
  absl::Notification has_returned;
  cancellation.OnCancel([&](const absl::Status&) {
    room.Leave();
    has_returned.WaitForNotificationWithTimeout(absl::Milliseconds(200));  // it has time to be wrong
  });
  std::thread other([&] { cancellation.Cancel(kReason); });
  EXPECT_EQ(room.Take(cancellation), kReason);
  has_returned.Notify();
  other.join();
  EXPECT_FALSE(room.IsTaken());
}

// What is waited for lives no longer than the wait.
TEST(CancellableWaitTest, LeavesNoCallbackBehind) {
  Cancellation cancellation;
  {
    Room room;
    room.Leave();
    ASSERT_EQ(room.Take(cancellation), absl::OkStatus());
  }
  cancellation.Cancel(kReason);
}

}  // namespace
}  // namespace weir
