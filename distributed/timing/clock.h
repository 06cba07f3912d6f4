// Time as the membership protocol sees it: only ever forward, and in a test only when the test says so.
//
// Thread safety: all methods.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace weir {

class Clock {
 public:
  virtual ~Clock() = default;
  // Comparable only with other values of the same clock.
  virtual absl::Time Now() const = 0;
};

// Not moved by whoever sets the machine's time.
Clock& MonotonicClock();

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
};

}  // namespace weir
