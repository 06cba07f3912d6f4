// Threads that run closures, now or at a time.
//
// Thread safety: all methods; Compute in closures only. Closures due at the same time run in the order they
// were scheduled when there is one thread. The destructor drops closures that are not due, and waits for
// those that run. Nothing runs, ever, in one whose status() is an error.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"
#include "kernels/process_clock.h"

namespace weir {

class TimerQueue {
 public:
  using Closure = absl::AnyInvocable<void()>;
  using Id = uint64_t;

  explicit TimerQueue(int num_threads = 1) : TimerQueue({num_threads, num_threads}) {}
  explicit TimerQueue(const ListeningThreads::Options& threads);
  ~TimerQueue();

  // ResourceExhausted when the system has given it no thread.
  const absl::Status& status() const { return threads_.status(); }

  Id Schedule(absl::Time when, Closure closure);
  Id Run(Closure closure) { return Schedule(absl::InfinitePast(), std::move(closure)); }

  // True when the closure will not run; false when it has begun, or is over.
  bool Cancel(absl::Time when, Id id);

  // For a closure that may compute for long (listening_threads.h): others still run when they are due.
  void Compute(Closure work) { threads_.Compute(std::move(work)); }

 private:
  using Key = std::pair<absl::Time, Id>;

  void RunClosures(ListeningThreads& threads);

  absl::Mutex mutex_;
  ProcessCondVar changed_;
  std::map<Key, Closure> closures_ ABSL_GUARDED_BY(mutex_);
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ListeningThreads threads_;  // last: they use what is above
};

}  // namespace weir
