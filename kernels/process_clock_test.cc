#include "kernels/process_clock.h"

#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/environment.h"
#include "kernels/set_machine_clock.h"

namespace weir {
namespace {

constexpr absl::Duration kHour = absl::Hours(1), kSoon = absl::Milliseconds(200);

class ProcessClockTest : public ::testing::TestWithParam<absl::Duration> {
 protected:
  ~ProcessClockTest() override { SetMachineClock(absl::ZeroDuration()); }

  static void Set(absl::Duration ahead) {
    const absl::Time before = absl::Now();
    SetMachineClock(ahead);
    // Abseil asks the machine only now and then.
    while (absl::AbsDuration(absl::Now() - before - ahead) > kHour / 2) {
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, ProcessClockTest, ::testing::Values(-kHour, kHour), [](const auto& info) {
  return info.param > absl::ZeroDuration() ? "Ahead" : "Back";
});

TEST_P(ProcessClockTest, DoesNotJump) {
  const absl::Time before = ProcessNow();
  EXPECT_LT(absl::AbsDuration(before - absl::Now()), kHour / 2);
  Set(GetParam());
  EXPECT_GE(ProcessNow(), before);
  EXPECT_LT(ProcessNow() - before, kHour / 2);
  EXPECT_LT(absl::AbsDuration(RealEnvironment().TimeOfDay() - before - GetParam()), kHour / 2);
}

TEST_P(ProcessClockTest, TimersRingWhenTheyWereTo) {
  const std::unique_ptr<Timers> timers = RealEnvironment().MakeTimers();
  absl::Notification soon, late;
  timers->At(RealEnvironment().Now() + kHour / 2, [&late] { late.Notify(); });
  timers->At(RealEnvironment().Now() + kSoon, [&soon] { soon.Notify(); });
  Set(GetParam());
  soon.WaitForNotification();
  EXPECT_FALSE(late.HasBeenNotified());
}

TEST_P(ProcessClockTest, WaitsLastAsLongAsTheyWereTo) {
  Environment& environment = RealEnvironment();
  absl::Mutex mutex;
  bool never = false, happens = false;
  const absl::Time soon = environment.Now() + kSoon, late = environment.Now() + kHour / 2;
  Set(GetParam());
  {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(environment.Await(mutex, absl::Condition(&never), soon));
    EXPECT_GE(environment.Now(), soon);
    EXPECT_LT(environment.Now(), soon + kHour / 2);
  }
  const std::unique_ptr<Timers> timers = environment.MakeTimers();
  timers->At(environment.Now() + kSoon, [&] {
    absl::MutexLock lock(&mutex);
    happens = true;
  });
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(environment.Await(mutex, absl::Condition(&happens), late));
}

// The time is over just when the condition comes true, and the mutex goes at once.
TEST(RealEnvironmentTest, AWaitThatEndsAsItsTimeIsOverLeavesNothingBehind) {
  Environment& environment = RealEnvironment();
  const std::unique_ptr<Timers> timers = environment.MakeTimers();
  for (int i = 0; i < 2000; ++i) {
    const auto mutex = std::make_unique<absl::Mutex>();
    bool happens = false;
    absl::Notification has_happened;
    const absl::Time end = environment.Now() + absl::Microseconds(i % 200);
    timers->At(end, [&] {
      {
        absl::MutexLock lock(mutex.get());
        happens = true;
      }
      has_happened.Notify();
    });
    {
      absl::MutexLock lock(mutex.get());
      EXPECT_EQ(environment.Await(*mutex, absl::Condition(&happens), end), happens);
    }
    has_happened.WaitForNotification();
  }
}

}  // namespace
}  // namespace weir
