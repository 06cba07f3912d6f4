// Collects what the devices of a traced step did.
//
// Thread safety: all methods.
#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/interchange/step_stats.h"

namespace weir {

class StepTrace {
 public:
  void Add(DeviceStats device) {
    absl::MutexLock lock(&mutex_);
    stats_.devices.push_back(std::move(device));
  }
  StepStats Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(stats_, {});
  }

 private:
  absl::Mutex mutex_;
  StepStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
