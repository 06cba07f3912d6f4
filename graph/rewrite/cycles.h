// The nodes of a graph that wait for themselves.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace weir {

// By node id: whether the node is on a cycle, or on a path from one cycle to another. What leads from a
// NextIteration around its loop does not count. Thread safety: as the graph's.
std::vector<bool> NodesOnCycles(const Graph& graph);

}  // namespace weir
