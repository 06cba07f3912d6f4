#include "distributed/master/client_call.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weir {
namespace {

// Keeps timers until the test rings them.
class HeldTimers final : public Threads {
 public:
  void Compute(Runnable* /*work*/) override {}
  absl::Status Block(absl::AnyInvocable<void()> work) override {
    work();
    return absl::OkStatus();
  }
  TimerId At(absl::Time /*when*/, absl::AnyInvocable<void()> work) override {
    timers_.push_back(std::move(work));
    return timers_.size();
  }
  bool Forget(TimerId /*id*/) override { return false; }
  size_t size() const { return timers_.size(); }
  void Ring(size_t timer) { timers_[timer](); }

 private:
  std::vector<absl::AnyInvocable<void()>> timers_;
};

TEST(ClientCallTest, HasItsWholePatienceAfterTheLastDeparture) {
  HeldTimers threads;
  OpenWork work(RealEnvironment(), threads);
  const auto call = [&] {
    return std::make_shared<ClientCall>(RealEnvironment(), work, absl::InfiniteFuture());
  };
  const auto first = call(), repeated = call();
  first->Outlives(ClientCall::kPatience);
  first->Gone();
  repeated->Repeats(first);
  repeated->Gone();
  ASSERT_EQ(threads.size(), 2u);
  threads.Ring(0);
  EXPECT_FALSE(first->is_given_up()) << "the connection broke a moment ago";
  threads.Ring(1);
  EXPECT_TRUE(first->is_given_up());
  work.Close();
  work.AwaitEnd();
}

}  // namespace
}  // namespace weir
