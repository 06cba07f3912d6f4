// What a step has begun on a device and not seen the end of: copies between its memory and the host's.
//
// The step is over when its programs are and everything that was begun has ended. Thread safety: all methods.
#pragma once

#include "absl/status/status.h"

namespace weir {

class PendingWork {
 public:
  virtual ~PendingWork() = default;

  // Called by a kernel while it computes. Each one is followed by one End, perhaps from another thread and
  // perhaps before the kernel has returned.
  virtual void Begin() = 0;
  // An error is the step's, if it has none yet. After the last one the step may be gone.
  virtual void End(const absl::Status& status) = 0;
};

}  // namespace weir
