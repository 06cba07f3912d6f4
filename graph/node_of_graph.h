// Whether nodes and outputs belong to a graph: ids of one graph name other nodes in another.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/graph.h"

namespace weir {

inline bool IsNodeOf(const Graph& graph, const Node& node) {
  return node.id() < graph.num_nodes() && graph.node(node.id()) == &node;
}

// InvalidArgument, naming the node, when it is of another graph.
inline absl::Status CheckNodeOf(const Graph& graph, const Node& node) {
  if (IsNodeOf(graph, node)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " is a node of another graph"));
}

}  // namespace weir
