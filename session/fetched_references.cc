#include "session/fetched_references.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

bool IsStandIn(const Node& node) {
  const size_t slash = node.name().rfind('/');
  return node.op_name() == "ReadVariableOp" && slash != std::string::npos &&
         absl::StartsWith(absl::string_view(node.name()).substr(slash), "/ref_value");
}

bool IsUpdate(const Node& node) {
  constexpr absl::string_view kUpdates[] = {"Assign",          "ResourceApply",        "ResourceSparseApply",
                                            "ResourceScatter", "ResourceStridedSlice", "ResourceCountUpTo"};
  return std::any_of(std::begin(kUpdates), std::end(kUpdates),
                     [&](absl::string_view prefix) { return absl::StartsWith(node.op_name(), prefix); });
}

// Nodes that a step may leave out, by their ids: they follow a Switch, or are in a loop.
absl::StatusOr<absl::flat_hash_set<const Node*>> MayBeDead(const Graph& graph) {
  absl::flat_hash_set<const Node*> dead;
  WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (const Node* node : order) {
    if (node->op_name() == "Merge") continue;
    bool may_be = node->op_name() == "Switch" || node->op_name() == "Enter";
    for (const Output& input : node->inputs()) may_be |= dead.contains(input.node);
    for (const Node* before : node->control_inputs()) may_be |= dead.contains(before);
    if (may_be) dead.insert(node);
  }
  return dead;
}

}  // namespace

absl::Status ReadFetchedReferencesLast(Graph& pruned) {
  absl::flat_hash_set<Node*> reads;
  for (const auto& node : pruned.nodes()) {
    if (IsStandIn(*node)) reads.insert(node.get());
  }
  // One that something else waits for is no fetch alone.
  for (const auto& node : pruned.nodes()) {
    for (Node* before : node->control_inputs()) reads.erase(before);
    if (node->op_name() == "_Retval") continue;
    for (const Output& input : node->inputs()) reads.erase(input.node);
  }
  if (reads.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const absl::flat_hash_set<const Node*> may_be_dead, MayBeDead(pruned));
  for (Node* const read : reads) {
    const auto before = read->control_inputs();
    std::vector<Node*> updates;
    for (const auto& node : pruned.nodes()) {
      const auto inputs = node->inputs();
      if (!IsUpdate(*node) || may_be_dead.contains(node.get()) ||
          std::find(inputs.begin(), inputs.end(), read->input(0)) == inputs.end() ||
          std::find(before.begin(), before.end(), node.get()) != before.end()) {
        continue;
      }
      updates.push_back(node.get());
    }
    for (Node* const update : updates) pruned.AddControlInput(read, update);
  }
  return absl::OkStatus();
}

}  // namespace weir
