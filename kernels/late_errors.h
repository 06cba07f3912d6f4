// What a device finds wrong with the data of a step when the kernel that looks at them has returned long
// ago, because it has only asked for the work. A device that computes late offers this beside Device.
//
// A step is named by its PendingWork, which is its own until its end. Thread safety: all methods.
//
// Progress: nothing waits for work that has not been done. Where something is wrong, a copy of what is wrong
// is waited for.
#pragma once

#include "absl/status/status.h"
#include "kernels/pending_work.h"

namespace weir {

class LateErrors {
 public:
  virtual ~LateErrors() = default;

  // The step's error, as far as the device has come: past all that was asked for before a copy to the host
  // that has ended.
  virtual absl::Status ErrorOf(const PendingWork& step) = 0;

  // All kernels of the step have returned, and its copies have ended. Gives its error, if it is known; else
  // it is that of the device's next step which looks at data. One that `has_failed` for another reason has
  // none.
  virtual absl::Status EndStep(const PendingWork& step, bool has_failed) = 0;
};

}  // namespace weir
