// Writes a graph's summaries to an event file for TensorBoard.
#pragma once

#include <memory>

#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"

namespace weir {

struct SummarySaverOptions {
  int64_t every_steps = 100;
  std::shared_ptr<EventWriter> writer;  // shared with other hooks, so that a run has one event file
  Output summary;                       // a serialized Summary, a string scalar
  Output global_step;
};

// The first step's summaries are written, then those of every `every_steps`-th. A disk that is full is
// reported once on stderr: training goes on without summaries.
HookPtr SummarySaverHook(SummarySaverOptions options);

}  // namespace weir
