#include "session/fetched_references.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "graph/nesting.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// `graph` is not pruned: it knows its stand-ins. Theirs are the names "OF/ref_value" and
// "OF/ref_value_OUTPUT", which a client may give to a node of its own too.
bool IsStandIn(const Node& node, const Graph& graph) {
  const size_t slash = node.name().rfind('/');
  if (node.op_name() != "ReadVariableOp" || slash == std::string::npos) return false;
  absl::string_view suffix = absl::string_view(node.name()).substr(slash);
  int output = 0;
  if (!absl::ConsumePrefix(&suffix, "/ref_value") ||
      (!suffix.empty() && !(absl::ConsumePrefix(&suffix, "_") && absl::SimpleAtoi(suffix, &output)))) {
    return false;
  }
  Node* const of = graph.FindNode(node.name().substr(0, slash));
  const std::optional<Output> read = of == nullptr ? std::nullopt : graph.StandIn({of, output});
  return read.has_value() && read->node->name() == node.name();
}

bool IsUpdate(const Node& node) {
  constexpr absl::string_view kUpdates[] = {"Assign",          "ResourceApply",        "ResourceSparseApply",
                                            "ResourceScatter", "ResourceStridedSlice", "ResourceCountUpTo"};
  return std::any_of(std::begin(kUpdates), std::end(kUpdates),
                     [&](absl::string_view prefix) { return absl::StartsWith(node.op_name(), prefix); });
}

// Nodes that a step may leave out, or run more than once.
absl::StatusOr<absl::flat_hash_set<const Node*>> InBranchesAndLoops(const Graph& graph) {
  absl::flat_hash_set<const Node*> nested;
  std::vector<Nesting> nestings(graph.num_nodes());  // by the node's id
  WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (const Node* node : order) {
    Nesting& nesting = nestings[node->id()];
    const auto follow = [&](const Node& producer) {
      nesting.Follow(producer.op_name(), nestings[producer.id()]);
    };
    for (const Output& input : node->inputs()) follow(*input.node);
    for (const Node* before : node->control_inputs()) follow(*before);
    nesting.Apply(node->op_name());
    if (!nesting.IsInNone()) nested.insert(node);
  }
  return nested;
}

}  // namespace

absl::Status ReadFetchedReferencesLast(const Graph& graph, Graph& pruned) {
  if (!graph.has_stand_ins()) return absl::OkStatus();
  absl::flat_hash_set<Node*> reads;
  for (const auto& node : pruned.nodes()) {
    if (IsStandIn(*node, graph)) reads.insert(node.get());
  }
  // One that something else waits for is no fetch alone.
  for (const auto& node : pruned.nodes()) {
    for (Node* before : node->control_inputs()) reads.erase(before);
    if (node->op_name() == "_Retval") continue;
    for (const Output& input : node->inputs()) reads.erase(input.node);
  }
  if (reads.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const absl::flat_hash_set<const Node*> nested, InBranchesAndLoops(pruned));
  absl::flat_hash_map<Output, std::vector<Node*>> updates_of;  // by the variable's handle
  for (const Node* read : reads) updates_of.try_emplace(read->input(0));
  for (const auto& node : pruned.nodes()) {
    if (!IsUpdate(*node) || nested.contains(node.get())) continue;
    for (const Output& input : node->inputs()) {
      if (const auto known = updates_of.find(input); known != updates_of.end()) {
        known->second.push_back(node.get());
      }
    }
  }
  for (Node* const read : reads) {
    std::vector<Node*> before(read->control_inputs().begin(), read->control_inputs().end());
    absl::flat_hash_set<const Node*> known(before.begin(), before.end());
    for (Node* const update : updates_of[read->input(0)]) {
      if (known.insert(update).second) before.push_back(update);
    }
    std::vector<Output> inputs(read->inputs().begin(), read->inputs().end());
    pruned.Connect(read, std::move(inputs), std::move(before));
  }
  return absl::OkStatus();
}

}  // namespace weir
