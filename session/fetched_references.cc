#include "session/fetched_references.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "graph/interchange/reference_buffers.h"
#include "graph/nesting.h"
#include "graph/runtime_ops.h"
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

// A fetch of what is a variable's buffer in TensorFlow.
struct Fetch {
  Node* retval = nullptr;
  ReferenceBuffer buffer;
};

std::vector<Fetch> FetchesOfReferences(const Graph& graph) {
  std::vector<Fetch> fetches;
  for (const auto& node : graph.nodes()) {
    if (node->op_name() != kRetvalOp) continue;
    const ReferenceBuffer buffer = BufferOf(node->input(0));
    if (buffer.read != nullptr) fetches.push_back({node.get(), buffer});
  }
  return fetches;
}

// The reads that nothing but fetches needs.
absl::flat_hash_set<const Node*> OnlyFetched(const Graph& graph, const std::vector<Fetch>& fetches) {
  absl::flat_hash_set<const Node*> reads;
  for (const Fetch& fetch : fetches) reads.insert(fetch.buffer.read);
  for (const auto& node : graph.nodes()) {
    for (const Node* before : node->control_inputs()) reads.erase(before);
    if (node->op_name() == kRetvalOp) continue;
    for (const Output& input : node->inputs()) reads.erase(input.node);
  }
  return reads;
}

// The updates that run in every step, by the variable's handle; of those variables alone that are fetched.
absl::StatusOr<absl::flat_hash_map<Output, std::vector<Node*>>> UpdatesOf(const Graph& graph,
                                                                          const std::vector<Fetch>& fetches) {
  WEIR_ASSIGN_OR_RETURN(const absl::flat_hash_set<const Node*> nested, InBranchesAndLoops(graph));
  absl::flat_hash_map<Output, std::vector<Node*>> updates_of;
  for (const Fetch& fetch : fetches) updates_of.try_emplace(fetch.buffer.read->input(0));
  for (const auto& node : graph.nodes()) {
    if (!IsUpdate(*node) || nested.contains(node.get())) continue;
    for (const Output& input : node->inputs()) {
      if (const auto known = updates_of.find(input); known != updates_of.end()) {
        known->second.push_back(node.get());
      }
    }
  }
  return updates_of;
}

absl::StatusOr<Node*> AddBeside(const Node& node, absl::string_view suffix, NodeSpec spec, Graph& graph) {
  spec.name = absl::StrCat(node.name(), suffix);
  while (graph.FindNode(spec.name) != nullptr) spec.name += "_";
  spec.source = node.source();
  return graph.AddNode(std::move(spec));
}

// Runs after all updates of a variable, for the reads of it: each of them with each update would be too many
// edges. Null when there is no update.
absl::StatusOr<Node*> AfterUpdates(const Node& read, const std::vector<Node*>& updates, Graph& graph) {
  if (updates.size() < 2) return updates.empty() ? nullptr : updates[0];
  return AddBeside(read, "/updates",
                   {.op = "NoOp", .control_inputs = updates, .device = read.requested_device()}, graph);
}

// Once more what the fetch gives, after the updates.
absl::StatusOr<Output> ReadOnceMore(const Fetch& fetch, Node* updates, Graph& graph) {
  const Node& read = *fetch.buffer.read;
  const Output fetched = fetch.retval->input(0);
  WEIR_ASSIGN_OR_RETURN(Node* const last, AddBeside(*fetched.node, "/last_read",
                                                    {.op = read.op_name(),
                                                     .inputs = {read.input(0)},
                                                     .control_inputs = {fetched.node, updates},
                                                     .attrs = read.attrs(),
                                                     .device = read.requested_device()},
                                                    graph));
  if (!fetch.buffer.is_shaped) return last->output(0);
  const DeviceName& device = fetched.node->requested_device();
  WEIR_ASSIGN_OR_RETURN(
      Node* const shape,
      AddBeside(*fetched.node, "/last_shape", {.op = "Shape", .inputs = {fetched}, .device = device}, graph));
  WEIR_ASSIGN_OR_RETURN(
      Node* const shaped,
      AddBeside(*fetched.node, "/last_shaped",
                {.op = "Reshape", .inputs = {last->output(0), shape->output(0)}, .device = device}, graph));
  return shaped->output(0);
}

// A variable that an Assign without validate_shape gives another number of elements has another buffer then,
// and what was read before keeps the old one.
bool MayGetAnotherBuffer(const std::vector<Node*>& updates) {
  return std::any_of(updates.begin(), updates.end(), [](const Node* update) {
    const AttrValue* const validates = update->FindAttr("validate_shape");
    return update->op_name() == "AssignVariableOp" && validates != nullptr && !validates->get<bool>();
  });
}

}  // namespace

absl::Status ReadFetchedReferencesLast(const Graph& graph, Graph& pruned) {
  if (!graph.has_stand_ins()) return absl::OkStatus();
  const std::vector<Fetch> fetches = FetchesOfReferences(pruned);
  if (fetches.empty()) return absl::OkStatus();
  const absl::flat_hash_set<const Node*> only_fetched = OnlyFetched(pruned, fetches);
  WEIR_ASSIGN_OR_RETURN(const auto updates_of, UpdatesOf(pruned, fetches));
  absl::flat_hash_map<Output, Node*> after_updates;  // by the variable's handle
  for (const Fetch& fetch : fetches) {
    Node* const read = fetch.buffer.read;
    const std::vector<Node*>& updates = updates_of.at(read->input(0));
    const bool is_reference = IsStandIn(*fetch.retval->input(0).node, graph);
    if (!is_reference && MayGetAnotherBuffer(updates)) continue;
    const auto [known, is_new] = after_updates.try_emplace(read->input(0), nullptr);
    if (is_new) {
      WEIR_ASSIGN_OR_RETURN(known->second, AfterUpdates(*read, updates, pruned));
    }
    Node* const last_update = known->second;
    if (last_update == nullptr) continue;
    if (only_fetched.contains(read)) {
      std::vector<Node*> before(read->control_inputs().begin(), read->control_inputs().end());
      if (absl::c_linear_search(before, last_update)) continue;
      before.push_back(last_update);
      pruned.Connect(read, {read->inputs().begin(), read->inputs().end()}, std::move(before));
    } else {
      WEIR_ASSIGN_OR_RETURN(const Output last, ReadOnceMore(fetch, last_update, pruned));
      const absl::Span<Node* const> before = fetch.retval->control_inputs();
      pruned.Connect(fetch.retval, {last}, {before.begin(), before.end()});
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
