// Who runs steps in this process: where failures go that a worker notices too late to return them.
//
// A worker's part of a step may be done, and say so, while tensors that it has sent are still on their way.
// One that does not arrive ends the step: whoever sent it tells the step's owner, which cancels the step
// everywhere. The owner finds that the step is over already, or ends it.
//
// Thread safety: all methods. Owners are called without a lock.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/device_name.h"

namespace weir {

class StepOwner {
 public:
  virtual ~StepOwner() = default;

  // A tensor of the step was lost, says the task `by`. Ignored for a step that is over, and from a task that
  // has no part in the plan. `reason` is not OK.
  virtual void FailStep(int64_t step_id, const DeviceName& by, const absl::Status& reason) = 0;

  // Ends the steps that run and have a part on that task; null: all. `reason` is not OK.
  virtual void FailRunningSteps(const DeviceName* task, const absl::Status& reason) = 0;
};

class StepOwners {
 public:
  // `plan` as in worker.h. An owner that is gone is forgotten.
  void Add(uint64_t plan, std::weak_ptr<StepOwner> owner);
  void Remove(uint64_t plan);

  // False when no such plan is owned in this process.
  bool FailStep(uint64_t plan, int64_t step_id, const DeviceName& by, const absl::Status& reason);
  // The running steps of all plans, of those that have a part on a task whose life is over; with null,
  // because this process may do nothing any more. A step may wait for a tensor that will never come: the task
  // that was to send it has done its own part, so no call fails, and what it sent last is refused now.
  void FailRunningSteps(const DeviceName* task, const absl::Status& reason);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::weak_ptr<StepOwner>> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
