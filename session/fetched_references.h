// Fetches of TensorFlow 1's reference variables ("v:0", "AssignAdd:0", "v/read:0") beside updates in the same
// step.
//
// In TensorFlow such a fetch is the variable's buffer itself, which is read when the step is over: it has
// what the step's updates have made of it. So session.run([train, global_step]) gives the number after the
// step, and so do fetches of what passes the buffer on (graph/interchange/reference_buffers.h). The read that
// stands for the fetch therefore follows all updates of its variable that the step runs, but for those that
// may not run, in the branch of a conditional or in a loop. Where nodes of the graph need what that read
// gives, the variable is read once more for the fetch: what they compute is not changed by this.
//
// Functions without state.
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"

namespace weir {

// `graph` knows its stand-ins; `pruned`: what PruneToSignature made of it. InvalidArgument for a graph with a
// cycle.
absl::Status ReadFetchedReferencesLast(const Graph& graph, Graph& pruned);

}  // namespace weir
