#include "distributed/master/open_work.h"

#include <deque>

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace weir
