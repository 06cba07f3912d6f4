// Counts global steps per second and writes them to an event file under "global_step/sec", as TensorFlow does.
#pragma once

#include <string>

#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct StepCounterOptions {
  int64_t every_steps = 100;
  std::string directory;  // of the event file; empty: none
  Output global_step;
  bool log = false;  // also a line on stderr
};

HookPtr StepCounterHook(StepCounterOptions options);

}  // namespace weir
