// Computes once, in a step, what several nodes compute alike.
//
// Two nodes are alike when they have the same op, attrs, inputs, control inputs and requested device, and the
// op has no state. The first one in topological order stays, the others' users move to it, and they are
// dropped. Gradients make many of these: each formula asks for the shapes and constants that it needs.
//
// Cost: one look-up in a hash table for each node.
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"

namespace weir {

// `graph`: pruned to a signature (rewrite/prune.h). Nodes that are targets of the step may be dropped: they
// have no effect. InvalidArgument for a graph with a cycle.
absl::Status MergeCommonSubexpressions(Graph& graph);

}  // namespace weir
