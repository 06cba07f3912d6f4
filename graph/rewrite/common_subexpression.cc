#include "graph/rewrite/common_subexpression.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/loops.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Enough of a constant to tell most of them apart: bytes, and strings, at either end. Equality looks at all.
constexpr size_t kHashedBytes = 64, kHashedStrings = 16;

size_t HashOfEnds(absl::string_view bytes) {
  const absl::string_view end = bytes.substr(bytes.size() - std::min(kHashedBytes, bytes.size()));
  return absl::HashOf(bytes.size(), bytes.substr(0, kHashedBytes), end);
}

size_t HashOf(const Tensor& tensor) {
  const size_t type = absl::HashOf(static_cast<int>(tensor.dtype()), tensor.num_elements());
  if (IsPlainBytes(tensor.dtype())) {
    const auto num_bytes = static_cast<size_t>(tensor.num_bytes());
    return absl::HashOf(type, HashOfEnds({static_cast<const char*>(tensor.data()), num_bytes}));
  }
  if (tensor.dtype() != DType::kString) return type;
  const auto strings = tensor.flat<std::string>();
  size_t hash = type;
  for (size_t i = 0; i < std::min(kHashedStrings, strings.size()); ++i) {
    hash = absl::HashOf(hash, HashOfEnds(strings[i]), HashOfEnds(strings[strings.size() - 1 - i]));
  }
  return hash;
}

size_t HashOf(const AttrValue& value) {
  if (const auto* text = value.get_if<std::string>()) return absl::HashOf(*text);
  if (const auto* number = value.get_if<int64_t>()) return absl::HashOf(*number);
  if (const auto* number = value.get_if<float>()) return absl::HashOf(*number);
  if (const auto* flag = value.get_if<bool>()) return absl::HashOf(*flag);
  if (const auto* dtype = value.get_if<DType>()) return absl::HashOf(static_cast<int>(*dtype));
  if (const auto* numbers = value.get_if<std::vector<int64_t>>()) return absl::HashOf(*numbers);
  if (const auto* tensor = value.get_if<Tensor>()) return HashOf(*tensor);
  return value.value().index();
}

struct HashNode {
  size_t operator()(const Node* node) const {
    size_t hash = absl::HashOf(&node->op());
    for (const Output& input : node->inputs()) hash = absl::HashOf(hash, input);
    for (const Node* before : node->control_inputs()) hash = absl::HashOf(hash, before);
    for (const auto& [name, value] : node->attrs()) hash = absl::HashOf(hash, HashOf(value));
    return hash;
  }
};

struct SameNode {
  bool operator()(const Node* a, const Node* b) const {
    return &a->op() == &b->op() && a->inputs() == b->inputs() && a->control_inputs() == b->control_inputs() &&
           a->requested_device() == b->requested_device() && a->attrs() == b->attrs();
  }
};

// Ops of the runtime begin with '_'; a placeholder is another one for each name.
bool IsCandidate(const Node& node) {
  const std::string& op = node.op_name();
  return !node.op().is_stateful() && node.num_outputs() > 0 && op[0] != '_' &&
         op.rfind("Placeholder", 0) != 0 && !IsControlFlow(node);
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph), stands_for_(graph.num_nodes(), nullptr) {}

  absl::Status Merge() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    known_.reserve(order.size());
    bool is_changed = false;
    for (Node* node : order) {
      if (is_changed) UseRepresentatives(*node);
      if (!IsCandidate(*node)) continue;
      Node* const first = *known_.insert(node).first;
      if (first == node) continue;
      stands_for_[node->id()] = first;
      is_changed = true;
    }
    if (!is_changed) return absl::OkStatus();
    // What a NextIteration leads back may have come later in the order.
    for (Node* node : order) {
      if (stands_for_[node->id()] == nullptr) UseRepresentatives(*node);
    }
    std::vector<bool> keep(stands_for_.size());
    for (size_t id = 0; id < keep.size(); ++id) keep[id] = stands_for_[id] == nullptr;
    graph_.KeepOnly(keep);
    return absl::OkStatus();
  }

 private:
  Node* RepresentativeOf(Node* node) const {
    Node* const first = stands_for_[node->id()];
    return first == nullptr ? node : first;
  }

  void UseRepresentatives(Node& node) {
    const auto is_merged = [this](const Node* before) { return stands_for_[before->id()] != nullptr; };
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output input = node.input(i);
      if (!is_merged(input.node)) continue;
      const Node& first = *RepresentativeOf(input.node);
      graph_.SetInput(&node, i, {RepresentativeOf(input.node), input.index});
      if (node.op_name() == kRetvalOp) {
        graph_.SetAttr(&node, "_class", std::vector<std::string>{absl::StrCat("loc:@", first.name())});
      }
    }
    if (std::none_of(node.control_inputs().begin(), node.control_inputs().end(), is_merged)) return;
    std::vector<Node*> control_inputs;
    absl::flat_hash_set<const Node*> representatives;
    for (Node* before : node.control_inputs()) {
      Node* const first = RepresentativeOf(before);
      if (representatives.insert(first).second) control_inputs.push_back(first);
    }
    graph_.Connect(&node, {node.inputs().begin(), node.inputs().end()}, std::move(control_inputs));
  }

  Graph& graph_;
  std::vector<Node*> stands_for_;  // by node id: the node that stays in its place; null for those that stay
  absl::flat_hash_set<Node*, HashNode, SameNode> known_;
};

}  // namespace

absl::Status MergeCommonSubexpressions(Graph& graph) { return Merger(graph).Merge(); }

}  // namespace weir
