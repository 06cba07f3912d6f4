#include "session/fetched_references.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/interchange/reference_buffers.h"
#include "graph/nesting.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

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

std::vector<Node*> WithoutTwins(absl::Span<Node* const> some, absl::Span<Node* const> others) {
  std::vector<Node*> all;
  absl::flat_hash_set<const Node*> known;
  for (const absl::Span<Node* const> nodes : {some, others}) {
    for (Node* const node : nodes) {
      if (known.insert(node).second) all.push_back(node);
    }
  }
  return all;
}

absl::StatusOr<Node*> AddBeside(const Node& node, absl::string_view suffix, NodeSpec spec, Graph& graph) {
  spec.name = absl::StrCat(node.name(), suffix);
  while (graph.FindNode(spec.name) != nullptr) spec.name += "_";
  spec.device = node.requested_device();
  spec.source = node.source();
  return graph.AddNode(std::move(spec));
}

// Once more what the fetch gives, after the updates.
absl::StatusOr<Output> ReadOnceMore(const Fetch& fetch, const std::vector<Node*>& updates, Graph& graph) {
  const Node& read = *fetch.buffer.read;
  const Output fetched = fetch.retval->input(0);
  NodeSpec spec = {.op = read.op_name(),
                   .inputs = {read.input(0)},
                   .control_inputs = WithoutTwins({fetched.node}, updates),
                   .attrs = read.attrs()};
  WEIR_ASSIGN_OR_RETURN(Node* const last, AddBeside(read, "/last_read", std::move(spec), graph));
  if (!fetch.buffer.is_shaped) return last->output(0);
  WEIR_ASSIGN_OR_RETURN(Node* const shape,
                        AddBeside(*fetched.node, "/last_shape", {.op = "Shape", .inputs = {fetched}}, graph));
  NodeSpec shaped = {.op = "Reshape", .inputs = {last->output(0), shape->output(0)}};
  WEIR_ASSIGN_OR_RETURN(Node* const reshaped,
                        AddBeside(*fetched.node, "/last_shaped", std::move(shaped), graph));
  return reshaped->output(0);
}

// One without a shape of its own may have another number of elements after an update.
bool MayBeShaped(const Fetch& fetch) {
  const std::optional<ResourceType>& variable =
      fetch.buffer.read->input(0).node->resource_type(fetch.buffer.read->input(0).index);
  return variable.has_value() && variable->shape.is_fully_known();
}

}  // namespace

absl::Status ReadFetchedReferencesLast(const Graph& graph, Graph& pruned) {
  if (!graph.has_stand_ins()) return absl::OkStatus();
  const std::vector<Fetch> fetches = FetchesOfReferences(pruned);
  if (fetches.empty()) return absl::OkStatus();
  const absl::flat_hash_set<const Node*> only_fetched = OnlyFetched(pruned, fetches);
  WEIR_ASSIGN_OR_RETURN(const auto updates_of, UpdatesOf(pruned, fetches));
  for (const Fetch& fetch : fetches) {
    Node* const read = fetch.buffer.read;
    const std::vector<Node*>& updates = updates_of.at(read->input(0));
    if (updates.empty()) continue;
    if (only_fetched.contains(read)) {
      pruned.Connect(read, {read->inputs().begin(), read->inputs().end()},
                     WithoutTwins(read->control_inputs(), updates));
    } else if (!fetch.buffer.is_shaped || MayBeShaped(fetch)) {
      WEIR_ASSIGN_OR_RETURN(const Output last, ReadOnceMore(fetch, updates, pruned));
      pruned.Connect(fetch.retval, {last},
                     {fetch.retval->control_inputs().begin(), fetch.retval->control_inputs().end()});
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
