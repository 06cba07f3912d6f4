// The time that a process goes by, and waits for it.
//
// ProcessNow is the machine's time of day when it was first asked for, plus what has passed since by a clock
// that only counts. So nothing here changes when somebody sets the machine's clock (an NTP step, a virtual
// machine that is restored): a deadline stays as far away as it was. It is for comparing with its own values;
// others' clocks, files and people have the time of day (absl::Now).
//
// Thread safety: all.
#pragma once

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

absl::Time ProcessNow();

// absl::CondVar for that clock. The time limits of absl's own are compared with the machine's clock by the
// system: when that is set back by an hour, they are over an hour later.
class ProcessCondVar {
 public:
  void Wait(absl::Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Until Signal, or that time of ProcessNow, or earlier.
  void WaitUntil(absl::Mutex* mutex, absl::Time time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Signal() { changed_.notify_one(); }
  void SignalAll() { changed_.notify_all(); }

 private:
  std::condition_variable_any changed_;
};

}  // namespace weir
