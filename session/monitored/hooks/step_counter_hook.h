// Counts global steps per second and writes them to an event file under "global_step/sec"
// (tf.train.StepCounterHook).
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"

namespace weir {

struct StepCounterOptions {
  int64_t every_steps = 100;  // when the interval is zero
  absl::Duration interval = absl::ZeroDuration();
  std::shared_ptr<EventWriter> writer;  // null: none
  Output global_step;
  bool log = false;  // also a line on stderr
};

// If steps run and the global step does not rise, a line on stderr says so, once.
HookPtr StepCounterHook(StepCounterOptions options);

}  // namespace weir
