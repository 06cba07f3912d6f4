#include "graph/rewrite/consumers.h"

namespace weir {

Consumers::Consumers(const Graph& graph) : begin_(graph.num_nodes() + 1, 0) {
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs()) ++begin_[input.node->id() + 1];
    for (const Node* before : node->control_inputs()) ++begin_[before->id() + 1];
  }
  for (size_t id = 1; id < begin_.size(); ++id) begin_[id] += begin_[id - 1];
  edges_.resize(begin_.back());
  std::vector<int> next = begin_;
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Output& input = node->input(i);
      edges_[next[input.node->id()]++] = {node.get(), i, input.index};
    }
    for (const Node* before : node->control_inputs()) edges_[next[before->id()]++] = {node.get()};
  }
}

}  // namespace weir
