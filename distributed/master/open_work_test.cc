#include "distributed/master/open_work.h"

#include <deque>
#include <memory>

#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {
namespace {

// Runs what the test tells it to, and has one thread.
class OneThread final : public Threads {
 public:
  void Compute(Runnable* /*work*/) override {}
  absl::Status Block(absl::AnyInvocable<void()> work) override {
    if (!blocked_.empty()) return absl::ResourceExhaustedError("no thread");
    blocked_.push_back(std::move(work));
    return absl::OkStatus();
  }
  TimerId At(absl::Time /*when*/, absl::AnyInvocable<void()> /*work*/) override { return 0; }
  bool Forget(TimerId /*id*/) override { return false; }
  void Run() {
    blocked_.front()();
    blocked_.pop_front();
  }

 private:
  std::deque<absl::AnyInvocable<void()>> blocked_;
};

TEST(OpenWork, WhatWaitsForTheOnlyThreadIsBounded) {
  OneThread threads;
  OpenWork work(RealEnvironment(), threads);
  size_t num_done = 0, num_taken = 0;
  absl::Status status;
  for (; num_taken <= 2 * OpenWork::kMaxQueued && status.ok(); num_taken += status.ok()) {
    status = work.Wait([&] { ++num_done; });
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(num_taken, OpenWork::kMaxQueued);
  threads.Run();
  EXPECT_EQ(num_done, num_taken);
  EXPECT_TRUE(work.Wait([] {}).ok());
  threads.Run();
  work.Close();
  work.AwaitEnd();
}

TEST(OpenWork, AnEndThatTakesLongSaysWhatItWaitsFor) {
  Scheduler scheduler(1);
  SimulatedEnvironment environment(scheduler, "one");
  OneThread threads;
  OpenWork work(environment, threads);
  std::shared_ptr<OpenWork::Share> call = work.Begin();
  work.Close();
  const auto timers = environment.MakeTimers();
  timers->At(environment.Now() + absl::Seconds(15), [&] { call.reset(); });
  testing::internal::CaptureStderr();
  const auto thread = environment.StartThread([&] { work.AwaitEnd(); });
  (*thread)->Join();
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "weir: the server ends, and waits for 1 calls and steps of clients that are under way (for 10s)\n");
}

}  // namespace
}  // namespace weir
