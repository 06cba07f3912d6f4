// A step whose work others have done already (Hook::HasDoneLostCall).
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "session/monitored/hook.h"

namespace weir {

// Takes the targets out of a step, so that it only computes its fetches. FailedPrecondition where a fetch
// would run one of them all the same, or count a step: `global_step` is the counter's value, or nothing.
absl::Status LeaveOutTargets(const Graph& graph, const Output& global_step, RunArgs& args);

}  // namespace weir
