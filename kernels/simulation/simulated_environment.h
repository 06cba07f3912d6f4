// The environment of one simulated process: its clock follows the scheduler's, in its own way (clock.h), and
// what it starts runs when the scheduler chooses it.
//
// Threads of steps, timers and threads that were started are paused and resumed with their process.
// Thread safety: as the scheduler's.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "kernels/environment.h"
#include "kernels/simulation/scheduler.h"

namespace weir {

class SimulatedEnvironment final : public Environment {
 public:
  // The clock's `begin` is the scheduler's.
  SimulatedEnvironment(Scheduler& scheduler, std::string name, const SimulatedClock& clock = {})
      : Environment(/*is_simulated=*/true),
        scheduler_(scheduler),
        process_(scheduler.AddProcess(std::move(name), clock)) {}

  Scheduler& scheduler() { return scheduler_; }
  // Each piece of a step begins up to this much later than it could: a slow machine. Zero: kernels take no
  // time.
  void set_longest_delay_of_work(absl::Duration longest) { longest_delay_of_work_ = longest; }
  absl::Duration longest_delay_of_work() const { return longest_delay_of_work_; }
  Scheduler::Process& process() const { return process_; }

  absl::Time SteadyNow() const override { return process_.clock.Counted(scheduler_.now()); }
  uint64_t Random() override { return scheduler_.Random(); }
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return scheduler_.Await(mutex, condition, process_.clock.WorldTimeOf(deadline));
  }
  absl::StatusOr<std::unique_ptr<Threads>> MakeThreads(int num_threads, int max_blocked_threads) override;
  std::unique_ptr<Timers> MakeTimers() override;
  absl::StatusOr<std::unique_ptr<StartedThread>> StartThread(absl::AnyInvocable<void()> run) override;

 private:
  absl::Time SimulatedNow() const override { return process_.clock.Shown(scheduler_.now()); }

  Scheduler& scheduler_;
  Scheduler::Process& process_;
  absl::Duration longest_delay_of_work_;
};

// Timers that ring when the scheduler says so; those of one process.
class SimulatedTimers final : public Timers {
 public:
  explicit SimulatedTimers(SimulatedEnvironment& environment) : environment_(environment) {}
  ~SimulatedTimers() override;

  TimerId At(absl::Time when, absl::AnyInvocable<void()> work) override;
  bool Forget(TimerId id) override;

 private:
  SimulatedEnvironment& environment_;
  std::set<Scheduler::EventId> pending_;
};

// The threads that run steps: pieces of steps run on the scheduler's thread, a few kernels at a time; what
// may wait gets a thread of its own.
class SimulatedThreads final : public Threads {
 public:
  explicit SimulatedThreads(SimulatedEnvironment& environment, int max_blocked_threads = 256)
      : environment_(environment), max_blocked_threads_(max_blocked_threads), timers_(environment) {}
  // Waits for what may wait.
  ~SimulatedThreads() override;

  void Compute(Runnable* work) override;
  absl::Status Block(absl::AnyInvocable<void()> work) override;
  TimerId At(absl::Time when, absl::AnyInvocable<void()> work) override {
    return timers_.At(when, std::move(work));
  }
  bool Forget(TimerId id) override { return timers_.Forget(id); }

 private:
  SimulatedEnvironment& environment_;
  const int max_blocked_threads_;
  SimulatedTimers timers_;
  absl::Mutex mutex_;
  int num_blocked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
