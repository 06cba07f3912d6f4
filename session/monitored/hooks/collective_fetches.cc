#include "session/monitored/hooks/collective_fetches.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace weir {
namespace {

bool IsCollective(const Node& node) {
  for (const char* name : {"WeirAllReduce", "WeirReduceScatter", "WeirAllToAll", "WeirBarrier", "WeirJoin"}) {
    if (node.op_name() == name) return true;
  }
  return absl::StartsWith(node.op_name(), "Collective");
}

}  // namespace

bool DependOnCollectives(const std::vector<Output>& outputs) {
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> pending;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) pending.push_back(node);
  };
  for (const Output& output : outputs) visit(output.node);
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    if (IsCollective(node)) return true;
    for (const Output& input : node.inputs()) visit(input.node);
    for (const Node* input : node.control_inputs()) visit(input);
  }
  return false;
}

bool HasCollectives(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return IsCollective(*node); });
}

}  // namespace weir
