#include "kernels/long_wait.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {
namespace {

struct LongWaitTest : ::testing::Test {
  Scheduler scheduler{1};
  SimulatedEnvironment environment{scheduler, "one"};
  absl::Mutex mutex;
  bool is_over = false;

  std::string Words(absl::FunctionRef<void()> wait) {
    ::testing::internal::CaptureStderr();
    const auto thread = environment.StartThread([&] { wait(); });
    (*thread)->Join();
    return ::testing::internal::GetCapturedStderr();
  }
  bool AwaitEnd(absl::Duration timeout) {
    absl::MutexLock lock(&mutex);
    return AwaitAloud(
        environment, mutex, absl::Condition(&is_over), [] { return "the end waits for a\nb"; },
        environment.Now() + timeout);
  }
  void Pause(absl::Duration duration) {
    absl::MutexLock lock(&mutex);
    environment.Await(mutex, absl::Condition(&is_over), environment.Now() + duration);
  }
};

TEST_F(LongWaitTest, SaysWhatItWaitsForEveryTenSeconds) {
  EXPECT_EQ(Words([&] { EXPECT_FALSE(AwaitEnd(absl::Seconds(35))); }),
            "weir: the end waits for a\\nb (for 10s, 25s left)\n"
            "weir: the end waits for a\\nb (for 20s, 15s left)\n"
            "weir: the end waits for a\\nb (for 30s, 5s left)\n");
  EXPECT_EQ(Words([&] { EXPECT_FALSE(AwaitEnd(absl::Seconds(10))); }), "") << "it is over then";
}

// Or it would be no error there.
TEST_F(LongWaitTest, ASimulationFindsAWaitWithoutEnd) {
  EXPECT_DEATH(
      {
        const auto thread = environment.StartThread([&] { AwaitEnd(absl::InfiniteDuration()); });
        (*thread)->Join();
      },
      "something waits for ever");
}

TEST_F(LongWaitTest, AShortWaitIsSilent) {
  const auto timers = environment.MakeTimers();
  timers->At(environment.Now() + absl::Seconds(9), [&] {
    absl::MutexLock lock(&mutex);
    is_over = true;
  });
  EXPECT_EQ(Words([&] { EXPECT_TRUE(AwaitEnd(absl::InfiniteDuration())); }), "");
}

TEST_F(LongWaitTest, AWordIsEarlyRatherThanLate) {
  const std::string words = Words([&] {
    LongWait wait(environment);
    for (int i = 0; i < 5; ++i) {
      wait.Say([&] { return "it"; }, absl::Seconds(4));
      Pause(absl::Seconds(4));
    }
    wait.Restart(environment.Now());
    EXPECT_FALSE(wait.Say([&] { return "it"; }));
    EXPECT_EQ(wait.next_word(), environment.Now() + LongWait::kSilence);
  });
  EXPECT_EQ(words, "weir: it (for 8s)\nweir: it (for 16s)\n");
}

}  // namespace
}  // namespace weir
