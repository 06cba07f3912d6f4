// What is under way in a master: the calls that are open, what waits for other tasks or compiles, and what
// shall run later.
//
// Work that waits is done by a few threads, in the order in which it came; what comes while all are busy
// queues. Attempts at what has failed before, because a task does not answer, have fewer threads, of their
// own: clients that wait for a dead task do not keep others from compiling. So have steps that compute: they
// do not keep others from compiling either, nor from calls that end them.
//
// Whoever holds a Share is counted; the master waits for all of them before it goes.
//
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/environment.h"
#include "kernels/threads.h"

namespace weir {

class OpenWork {
 public:
  using TimerId = uint64_t;  // 0: none

  static constexpr int kMaxRunning = 64;        // works at a time
  static constexpr int kMaxRepeated = 16;       // repeated ones, beside them
  static constexpr int kMaxComputing = 128;     // steps, beside them
  static constexpr int kMaxComputingHere = 16;  // steps on the threads that take calls
  static constexpr size_t kMaxQueued = 10'000;  // of each of these

  // How long one work may wait for other tasks the first time, and when it is repeated; between two attempts.
  static constexpr absl::Duration kFirstAttempt = absl::Seconds(1);
  static constexpr absl::Duration kAttempt = absl::Seconds(5);
  static constexpr absl::Duration kPause = absl::Milliseconds(500);

  OpenWork(Environment& environment, Threads& threads) : environment_(environment), threads_(threads) {}
  // Precondition: AwaitEnd.
  ~OpenWork() = default;

  // Counts until it is destroyed.
  class Share {
   public:
    explicit Share(OpenWork* work) : work_(work) {}
    ~Share() { work_->End(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    OpenWork* const work_;
  };

  // Null once it was closed.
  std::shared_ptr<Share> Begin();

  // Runs `work`, which may wait, on another thread, after what came before it. ResourceExhausted when too
  // much is in the queue, or the process has no thread for any of it; then it is dropped. Unavailable once it
  // was closed; what is in the queue then still runs.
  absl::Status Wait(absl::AnyInvocable<void()> work, bool is_repeated = false);

  // Runs `work`, which may compute for long, on another thread, after what came before it. Errors: as of
  // Wait.
  absl::Status Compute(absl::AnyInvocable<void()> work);
  // The same on this thread, unless kMaxComputingHere are on theirs: a server whose threads all compute would
  // be deaf.
  absl::Status ComputeHere(absl::AnyInvocable<void()> work);

  // Runs `work`, which must be short, at `when`; at once when it is closed before or meanwhile.
  TimerId Later(absl::Time when, absl::AnyInvocable<void()> work);
  // The work will not begin after this; 0 and timers that have rung are ignored.
  void Forget(TimerId id);

  // Nothing begins any more.
  void Close();
  bool is_closed() const;
  // Waits for what is under way, and says so when that takes long. After Close.
  void AwaitEnd();

 private:
  struct Lane {
    const int max_running;
    const char* const what;  // its works do, for messages
    int num_running = 0;
    std::deque<absl::AnyInvocable<void()>> queue;
  };
  struct Timer {
    absl::AnyInvocable<void()> work;
    Threads::TimerId timer = 0;
  };

  absl::Status Queue(Lane& lane, absl::AnyInvocable<void()> work);
  // Works of the lane, one after another, until its queue is empty.
  void RunLane(Lane& lane);
  void Ring(TimerId id);
  void End();

  Environment& environment_;
  Threads& threads_;
  mutable absl::Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;  // shares, works, timers
  int num_computing_here_ ABSL_GUARDED_BY(mutex_) = 0;
  Lane usual_ ABSL_GUARDED_BY(mutex_) = {
      .max_running = kMaxRunning, .what = "wait for other tasks, or compile", .queue = {}};
  Lane repeated_ ABSL_GUARDED_BY(mutex_) = {
      .max_running = kMaxRepeated, .what = "wait for other tasks", .queue = {}};
  Lane computing_ ABSL_GUARDED_BY(mutex_) = {.max_running = kMaxComputing, .what = "compute", .queue = {}};
  TimerId last_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<TimerId, Timer> timers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
