// Writes a timeline of a step now and then (tf.train.ProfilerHook): which node ran when, on which device.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"

namespace weir {

struct ProfilerOptions {
  std::string directory;
  int64_t every_steps = 0;  // when > 0, else
  absl::Duration interval = absl::ZeroDuration();
  bool show_dataflow = true;            // arrows between producers and consumers
  std::shared_ptr<EventWriter> writer;  // also given the step's RunMetadata, for TensorBoard; null: none
  Output global_step;                   // default: the collection "global_step"
};

// After every so many steps, or so much time, one step is traced and written to timeline-STEP.json (open it
// in chrome://tracing). The first step is not: it compiles. Only devices of this process are seen. A disk
// that is full is reported on stderr: training goes on without timelines. Begin fails unless exactly one of
// every_steps and interval is set.
HookPtr ProfilerHook(ProfilerOptions options);

}  // namespace weir
