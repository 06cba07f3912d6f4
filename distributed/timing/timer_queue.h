// Threads that run closures, now or at a time.
//
// Thread safety: all methods. Closures due at the same time run in the order they were scheduled when there
// is one thread. The destructor drops closures that are not due, and waits for those that run.
#pragma once

#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

class TimerQueue {
 public:
  using Closure = absl::AnyInvocable<void()>;
  using Id = uint64_t;

  explicit TimerQueue(int num_threads = 1);
  ~TimerQueue();

  Id Schedule(absl::Time when, Closure closure);
  Id Run(Closure closure) { return Schedule(absl::InfinitePast(), std::move(closure)); }

  // True when the closure will not run; false when it has begun, or is over.
  bool Cancel(absl::Time when, Id id);

 private:
  using Key = std::pair<absl::Time, Id>;

  void RunThread();

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::map<Key, Closure> closures_ ABSL_GUARDED_BY(mutex_);
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace weir
