// When kernels of one program run beside one another (overlap.h). A value.
#pragma once

#include "absl/time/time.h"

namespace weir {

struct OverlapOptions {
  // Kernels shorter than this stay on the thread that runs the program.
  absl::Duration min_kernel = absl::Microseconds(50);
  // What the simulation must promise: both.
  absl::Duration min_gain = absl::Microseconds(100);
  double min_share = 0.15;
  // Steps that come before those that are measured: they fill caches and allocate.
  int num_warm_up_steps = 3;
  int num_measured_steps = 8;
  // Steps that try the schedule; 0: it is kept untried.
  int num_tried_steps = 8;
  int num_threads = 0;  // 0: those of the device
};

}  // namespace weir
