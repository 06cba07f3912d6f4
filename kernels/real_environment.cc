#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "kernels/environment.h"
#include "kernels/real_threads.h"
#include "kernels/real_timers.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

class RealThread final : public StartedThread {
 public:
  explicit RealThread(std::thread thread) : thread_(std::move(thread)) {}
  ~RealThread() override {
    if (thread_.joinable()) thread_.detach();
  }
  void Join() override { thread_.join(); }

 private:
  std::thread thread_;
};

class OperatingSystem final : public Environment {
 public:
  OperatingSystem() : Environment(/*is_simulated=*/false) {}

  absl::Time SteadyNow() const override {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  uint64_t Random() override {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }

  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline != absl::InfiniteFuture()) return mutex.AwaitWithDeadline(condition, deadline);
    mutex.Await(condition);
    return true;
  }

  absl::StatusOr<std::unique_ptr<Threads>> MakeThreads(int num_threads, int max_blocked_threads) override {
    return RealThreads::Create({.num_threads = num_threads, .max_blocked_threads = max_blocked_threads});
  }
  std::unique_ptr<Timers> MakeTimers() override { return std::make_unique<RealTimers>(); }
  absl::StatusOr<std::unique_ptr<StartedThread>> StartThread(absl::AnyInvocable<void()> run) override {
    absl::StatusOr<std::thread> thread = StartSystemThread(std::move(run));
    if (!thread.ok()) return thread.status();
    return std::make_unique<RealThread>(*std::move(thread));
  }
};

}  // namespace

Environment& RealEnvironment() {
  // Never destroyed: detached threads use it while the process exits.
  static Environment* const environment = new OperatingSystem;
  return *environment;
}

}  // namespace weir
