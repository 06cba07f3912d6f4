// Which nodes of a graph must be on one device: those colocated by "_class" ("loc:@NAME"), those that name
// the same node, though the graph does not have it, and those joined by a resource handle.
//
// Thread safety: const methods may run at the same time.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace weir {

class NodeGroups {
 public:
  // The graph must not change while the groups are used.
  explicit NodeGroups(const Graph& graph);

  // Each with its nodes in the order of the graph; ordered by their first nodes.
  const std::vector<std::vector<Node*>>& groups() const { return groups_; }

 private:
  std::vector<std::vector<Node*>> groups_;
};

}  // namespace weir
