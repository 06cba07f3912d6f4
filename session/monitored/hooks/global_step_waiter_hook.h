// Delays a worker's first step until the global step has reached a value (tf.train.GlobalStepWaiterHook):
// workers that begin one after another disturb early training less.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct GlobalStepWaiterOptions {
  int64_t wait_until_step = 0;  // zero or less: does not wait
  Output global_step;           // default: the collection "global_step"
  absl::Duration poll_interval = absl::Milliseconds(500);
  // DeadlineExceeded, naming both steps, when the global step is not there by then.
  absl::Duration max_wait = absl::InfiniteDuration();
};

// Reads the global step again and again, and says on stderr what it waits for. It goes on early when a stop
// is requested.
HookPtr GlobalStepWaiterHook(GlobalStepWaiterOptions options);

}  // namespace weir
