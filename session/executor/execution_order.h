// The order in which a program's instructions stand, and in which they are taken when several are ready.
//
// Receives come first: they wait for others. Sends come as soon as they can: others wait for them. The rest
// stands as it was built, which is forward, backward, update: an update comes after the readers of its
// variable whenever it may.
//
// A kernel that waits (for a collective's other ranks, for a queue) costs this thread nothing once it has
// begun, and neither does a send: what is made for one of them alone, the joined gradients of a bucket for
// example, runs as soon as what others need too has been made, though it was built after the whole backward
// pass. Nodes with state keep their places among one another.
//
// Pure functions: the same graph has the same order in every process. Thread safety: none needed.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace weir {

// By urgency and age. InvalidArgument for a cycle.
absl::StatusOr<std::vector<const Node*>> BuildOrder(const Graph& graph);

// `order`, of all nodes of the graph, with what leads to nothing but one early starter moved forward.
// `starts_early`: whether the node waits, or others wait for it.
std::vector<const Node*> StartEarly(const Graph& graph, std::vector<const Node*> order,
                                    absl::FunctionRef<bool(const Node&)> starts_early);

// Whether the node is an _Arg or _Retval that comes, or goes, while the step runs (graph/runtime_ops.h).
bool IsLate(const Node& node);

}  // namespace weir
