#include "graph/rewrite/cycles.h"

#include <utility>

namespace weir {
namespace {

// By node id.
using Neighbours = std::vector<std::vector<int>>;

// Takes away what has none of `before` left, and what has none left after that, and so on.
void TakeAway(const Neighbours& before, const Neighbours& after, std::vector<bool>* is_left) {
  std::vector<int> num_before(before.size(), 0), taken;
  for (size_t id = 0; id < before.size(); ++id) {
    for (const int other : before[id]) num_before[id] += (*is_left)[other];
    if ((*is_left)[id] && num_before[id] == 0) taken.push_back(static_cast<int>(id));
  }
  while (!taken.empty()) {
    const int id = taken.back();
    taken.pop_back();
    (*is_left)[id] = false;
    for (const int other : after[id]) {
      if ((*is_left)[other] && --num_before[other] == 0) taken.push_back(other);
    }
  }
}

}  // namespace

std::vector<bool> NodesOnCycles(const Graph& graph) {
  Neighbours sources(graph.num_nodes()), readers(graph.num_nodes());
  const Op* const next_iteration = graph.ops().Find("NextIteration");
  const auto add = [&](const Node& source, const Node& reader) {
    if (&source.op() == next_iteration) return;
    sources[reader.id()].push_back(source.id());
    readers[source.id()].push_back(reader.id());
  };
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs()) add(*input.node, *node);
    for (const Node* const before : node->control_inputs()) add(*before, *node);
  }
  std::vector<bool> is_left(graph.num_nodes(), true);
  TakeAway(sources, readers, &is_left);
  TakeAway(readers, sources, &is_left);
  return is_left;
}

}  // namespace weir
