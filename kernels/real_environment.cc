#include <chrono>
#include <memory>
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

// The end of the time that somebody waits for a condition. Rings on a timer's thread; shared with the timer.
struct Expiry {
  explicit Expiry(absl::Mutex& mutex) : mutex(mutex) {}

  void Ring() {
    absl::MutexLock lock(&ringing);
    if (is_unwanted) return;
    absl::MutexLock waiter_lock(&mutex);  // its conditions are looked at again
    is_over = true;
  }
  // The waiter's mutex may go when this has returned. Called without it.
  void ForgetRing() {
    absl::MutexLock lock(&ringing);
    is_unwanted = true;
  }

  absl::Mutex& mutex;    // of who waits
  bool is_over = false;  // guarded by it
  absl::Mutex ringing;   // taken before it
  bool is_unwanted ABSL_GUARDED_BY(ringing) = false;
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

  // A mutex's own time limits are of the machine's clock, which may be set: a timer ends the wait.
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline == absl::InfiniteFuture()) {
      mutex.Await(condition);
      return true;
    }
    if (condition.Eval()) return true;
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration()) return false;
    if (!deadlines_.Start().ok()) return mutex.AwaitWithTimeout(condition, left);  // no thread for timers
    const auto expiry = std::make_shared<Expiry>(mutex);
    const Timers::TimerId timer = deadlines_.At(deadline, [expiry] { expiry->Ring(); });
    const auto is_over = [&expiry, &condition] { return expiry->is_over || condition.Eval(); };
    mutex.Await(absl::Condition(&is_over));
    if (!deadlines_.Forget(timer) && !expiry->is_over) {  // it is just about to ring
      mutex.Unlock();
      expiry->ForgetRing();
      mutex.Lock();
    }
    return condition.Eval();
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

 private:
  RealTimers deadlines_;  // of Await
};

}  // namespace

Environment& RealEnvironment() {
  // Never destroyed: detached threads use it while the process exits.
  static Environment* const environment = new OperatingSystem;
  return *environment;
}

}  // namespace weir
