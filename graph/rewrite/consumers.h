// Who reads what: the edges of a graph by the node they come from, in one array (compressed sparse rows).
//
// Made of a graph as it is now; later changes to the graph do not show. Borrows the graph's nodes. Thread
// safety: safe to read concurrently. Cost: three passes over the edges, two allocations.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "graph/graph.h"

namespace weir {

class Consumers {
 public:
  static constexpr int kControl = -1;

  struct Edge {
    Node* consumer = nullptr;
    int input = kControl;   // which input of the consumer; kControl for a control edge
    int output = kControl;  // which output of the producer it reads
    bool is_control() const { return input == kControl; }
  };

  explicit Consumers(const Graph& graph);

  // The edges that leave `producer`, in the order of their consumers' ids. A consumer that reads a node twice
  // is listed twice. Empty for nodes that were added since.
  absl::Span<const Edge> Of(const Node& producer) const {
    const size_t id = producer.id();
    if (id + 1 >= begin_.size()) return {};
    return absl::MakeConstSpan(edges_).subspan(begin_[id], begin_[id + 1] - begin_[id]);
  }

 private:
  std::vector<int> begin_;  // by node id: where its edges begin in edges_
  std::vector<Edge> edges_;
};

}  // namespace weir
