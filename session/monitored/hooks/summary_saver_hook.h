// Writes a graph's summaries to an event file for TensorBoard.
#pragma once

#include <string>

#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct SummarySaverOptions {
  int64_t every_steps = 100;
  std::string directory;
  Output summary;  // a serialized Summary, a string scalar
  Output global_step;
};

// The first step's summaries are written, then those of every `every_steps`-th. A disk that is full is reported once on
// stderr: training goes on without summaries.
HookPtr SummarySaverHook(SummarySaverOptions options);

}  // namespace weir
