// The threads that run steps: who computes, who may wait, and when a timer rings.
//
// A Runnable is a piece of a step that runs until it has to wait for something, and then parks; what it waits
// for hands it to Compute again. Steps never run on the stack of whoever wakes them: waking only puts the
// Runnable on a list, and the outermost frame of the thread (RunScope) runs the list. So the depth of the
// stack does not grow with the number of steps, sends or queues that wake one another.
//
// Thread safety: all methods, from any thread.
//
// Progress: what is given to Compute runs, as long as those that run return. Compute threads are few and must
// never wait for another Runnable; whoever has to wait uses Block, whose threads are as many as there is
// work, up to a limit beyond which Block is an error instead of a queue. Timers ring on a thread of their
// own. Not promised: any order between Runnables, and that a timer rings at once when its thread is busy with
// another.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace weir {

class Runnable {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  virtual ~Runnable() = default;

  // Goes on for about `budget` kernels. True: it can go on, and the caller calls again. False: it has parked
  // or is over; the caller must not touch it again, for another thread may have it, or nobody.
  virtual bool Run(int64_t budget) = 0;

  // Whether waking a sleeping thread costs much less than running this.
  virtual bool is_heavy() const = 0;
};

class Threads {
 public:
  using TimerId = uint64_t;  // never 0

  virtual ~Threads() = default;

  // Runs `work` soon; never before this returns. Inside a RunScope `work` may be kept for the scope's end:
  // when it is the thread's only work, or when neither it nor what runs there is heavy.
  virtual void Compute(Runnable* work) = 0;

  // For work that may wait. ResourceExhausted when too much of it waits already; then it will not run.
  virtual absl::Status Block(absl::AnyInvocable<void()> work) = 0;

  // Runs `work`, which must be short, at `when` or soon after.
  virtual TimerId At(absl::Time when, absl::AnyInvocable<void()> work) = 0;
  // True when the work will not run; false when it has begun, or is over. 0 is ignored.
  virtual bool Forget(TimerId id) = 0;
};

class RealThreads;

// Where a thread enters the running of steps: what becomes runnable on it while this lives, it runs when this
// ends. Nested scopes do nothing.
class RunScope {
 public:
  RunScope();
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

  // Whether this thread is inside of one, and so must not wait: what it waits for may be kept for the end.
  static bool IsInside();

 private:
  friend class RealThreads;
  void Drain();

  const bool is_outermost_;
  bool is_running_ = false;
  bool runs_heavy_ = false;
  std::deque<Runnable*> here_;
  // Given to other threads from here: taken back if they have not begun when this thread has nothing to do.
  std::vector<std::pair<RealThreads*, Runnable*>> elsewhere_;
};

}  // namespace weir
