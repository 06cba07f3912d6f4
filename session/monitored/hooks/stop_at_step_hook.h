// Ends training at a global step.
#pragma once

#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct StopAtStepOptions {
  int64_t last_step = 0;  // stop when the global step has reached it; or
  int64_t num_steps = 0;  // stop so many steps after the session's beginning
  // Default: the variable of the collection "global_step".
  Output global_step;
};

// Requests a stop after the step that brings the global step to the last one; with several workers each stops
// when it sees that, so the global step may end a little higher. A program that is started again after the
// last step does none (in TensorFlow one more): should_stop() is true at once. A line on stderr says when the
// step is smaller in a new session than it was, because variables were restored. Begin fails without a global
// step (FailedPrecondition) or unless exactly one of last_step and num_steps is set (InvalidArgument).
HookPtr StopAtStepHook(StopAtStepOptions options);

}  // namespace weir
