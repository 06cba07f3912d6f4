// Writes a graph's summaries to an event file for TensorBoard (tf.train.SummarySaverHook).
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"
#include "session/monitored/scaffold.h"

namespace weir {

struct SummarySaverOptions {
  int64_t every_steps = 100;  // when the interval is zero
  absl::Duration interval = absl::ZeroDuration();
  // Shared with other hooks, so that a run has one event file. Null on a replica that writes nothing: there
  // the hook only takes part in what replicas compute together for the summary (collective_fetches.h).
  std::shared_ptr<EventWriter> writer;
  // Exactly one of them: a serialized Summary (a string scalar), or the scaffold whose summary it is. That
  // one may have none: then only the beginning is written.
  Output summary;
  std::shared_ptr<const Scaffold> scaffold;
  Output global_step;  // default: the collection "global_step"
};

// The first step's summaries are written, then those of every `every_steps`-th, or of the first step after
// every interval. Before them stands the event that says at which step the session began (SessionLog START).
// A summary of what replicas compute together is fetched in every step, and by all that have the hook.
// A disk that is full is reported once on stderr: training goes on without summaries.
HookPtr SummarySaverHook(SummarySaverOptions options);

}  // namespace weir
