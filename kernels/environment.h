// Where a program gets what is not a function of its inputs: the time, randomness, threads, timers and waits.
//
// Everything above kernels that waits, looks at a clock or starts a thread asks its Environment, which was
// given to it (RuntimeOptions, ServerOptions, SessionTarget). The real one is the operating system's. A
// simulated one (kernels/simulation) has a virtual clock and runs one thread at a time, in an order that is a
// function of a seed; so a whole cluster runs in one process and a fault can be repeated. A test
// (tests/layering) finds whoever goes past it.
//
// Waiting: a condition of a mutex, in the manner of absl::Mutex::Await. A simulation evaluates the conditions
// of all that wait whenever it chooses who goes on, so nobody has to be woken. Whoever waits must hold no
// other mutex, and may not wait at all on a thread of Threads, Timers or a transport.
//
// Clocks: Now is for deadlines, timers and waits, and does not jump when somebody sets the machine's clock
// (process_clock.h); transports compare the deadlines of calls with it, so it must be theirs. SteadyNow is
// for durations alone. TimeOfDay is for others: it is what the machine's clock says, and may jump.
//
// Thread safety: all methods. What an environment makes must not outlive it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/process_clock.h"
#include "kernels/threads.h"
#include "kernels/timers.h"

namespace weir {

// A thread that was started. Who drops it without Join lets the thread go on by itself.
class StartedThread {
 public:
  virtual ~StartedThread() = default;
  // Returns when the thread's function has returned. At most once; not from the thread itself.
  virtual void Join() = 0;
};

class Environment {
 public:
  virtual ~Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // Time passes only while something waits, and polling would never end.
  bool is_simulated() const { return is_simulated_; }

  // Comparable only with other values of the same environment. Each step asks: no virtual call on the way to
  // the real clock.
  absl::Time Now() const { return is_simulated_ ? SimulatedNow() : ProcessNow(); }
  virtual absl::Time SteadyNow() const = 0;
  absl::Time TimeOfDay() const { return is_simulated_ ? SimulatedNow() : absl::Now(); }

  // What nobody can guess; simulated, a function of the seed.
  virtual uint64_t Random() = 0;

  // Called with `mutex` held: waits until `condition` holds or Now() has reached `deadline`. Returns, with
  // the mutex held again, whether the condition holds.
  virtual bool Await(absl::Mutex& mutex, const absl::Condition& condition,
                     absl::Time deadline = absl::InfiniteFuture()) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  // Threads that run steps; `max_blocked_threads` bounds Threads::Block. ResourceExhausted when the system
  // gives no thread at all.
  virtual absl::StatusOr<std::unique_ptr<Threads>> MakeThreads(int num_threads, int max_blocked_threads) = 0;
  virtual std::unique_ptr<Timers> MakeTimers() = 0;
  // A thread of its own for work that may wait. ResourceExhausted when the system gives none; then `run` is
  // not called.
  virtual absl::StatusOr<std::unique_ptr<StartedThread>> StartThread(absl::AnyInvocable<void()> run) = 0;

 protected:
  explicit Environment(bool is_simulated) : is_simulated_(is_simulated) {}

 private:
  virtual absl::Time SimulatedNow() const { return absl::InfinitePast(); }

  const bool is_simulated_;
};

// The operating system's. Lives as long as the process.
Environment& RealEnvironment();

}  // namespace weir
