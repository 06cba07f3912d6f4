// Counts global steps per second and writes them to an event file under "global_step/sec", as TensorFlow
// does.
#pragma once

#include <memory>

#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"

namespace weir {

struct StepCounterOptions {
  int64_t every_steps = 100;
  std::shared_ptr<EventWriter> writer;  // null: none
  Output global_step;
  bool log = false;  // also a line on stderr
};

HookPtr StepCounterHook(StepCounterOptions options);

}  // namespace weir
