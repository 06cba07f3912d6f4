// A step whose work others have done already (Hook::HasDoneLostCall).
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "session/monitored/hook.h"

namespace weir {

// Takes the targets out of a step, so that it only computes its fetches. DoneByOthersError where a fetch
// would run one of them all the same, or update another variable.
absl::Status LeaveOutTargets(const Graph& graph, RunArgs& args);

}  // namespace weir
