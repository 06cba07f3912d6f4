// A thread of the operating system that runs what it is given, one piece after another.
//
// It stands for a queue of a device: the copies of one direction, in their order. It is started with the
// first piece of work and ends with its owner, when all has run. Thread safety: all methods; but AwaitAll and
// the destructor not from the work itself.
#pragma once

#include <cstdint>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace weir {

class SerialThread {
 public:
  using Work = absl::AnyInvocable<void()>;

  SerialThread() = default;
  ~SerialThread();
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // ResourceExhausted when the system gives no thread; then the work will not run.
  absl::Status Add(Work work);
  // Returns when all that was added before has run.
  void AwaitAll();

 private:
  void Run();

  absl::Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  int64_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_run_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
