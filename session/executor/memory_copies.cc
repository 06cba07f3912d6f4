#include "session/executor/memory_copies.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// What is computed with on the host has no more elements, as far as is known.
constexpr int64_t kMaxHostElements = 1024;

bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kBool;
}

// Where a tensor is that no kernel's definition speaks of.
MemoryKind UsualKind(DType dtype) {
  return IsInteger(dtype) || !IsPlainBytes(dtype) ? MemoryKind::kHost : MemoryKind::kDevice;
}

bool IsConstant(const Node& node) { return node.op_name() == "Const"; }

// Its output is its input's tensor, wherever that is.
bool IsAlias(const std::string& op) {
  return op == "Identity" || op == "StopGradient" || op == "PlaceholderWithDefault";
}

bool IsFlow(const std::string& op) {
  return op == "Switch" || op == "Merge" || op == "Enter" || op == "Exit" || op == "NextIteration" ||
         op == "LoopCond";
}

// Its output has its input's elements.
bool IsReshape(const Node& node) {
  const std::string& op = node.op_name();
  return (op == "Reshape" || op == "ExpandDims" || op == "Squeeze") && IsInteger(node.output_type(0));
}

bool IsSmall(const PartialShape& shape) {
  if (!shape.has_rank() || shape.rank() > 1) return false;
  return shape.rank() == 0 || shape.dim(0) <= kMaxHostElements;
}

// Who reads a constant where.
struct ConstantUses {
  bool is_on_device = false;
  std::vector<std::pair<Node*, int>> on_host;  // reader, and which of its inputs
};

class CopyInserter {
 public:
  CopyInserter(Graph& graph, absl::string_view device_type, const KernelRegistry& kernels)
      : graph_(graph), device_type_(device_type), kernels_(kernels), outputs_(graph.num_nodes()) {}

  absl::Status Insert() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    FindReshapesForDevice(order);
    std::vector<ArgumentKinds> kinds;
    for (Node* const node : order) {
      // A client may have sent it, or another task.
      for (const char* const attr : {kOnHostAttr, kOnlyFetchedAttr}) {
        if (node->FindAttr(attr) != nullptr) graph_.SetAttr(node, attr, AttrValue(false));
      }
      kinds.push_back(KindsOf(*node));
      outputs_[node->id()] = kinds.back().outputs;
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (int k = 0; k < order[i]->num_inputs(); ++k) {
        WEIR_RETURN_IF_ERROR(Move(order[i], k, kinds[i].inputs[k]));
      }
    }
    for (Node* const node : order) {
      if (IsConstant(*node)) WEIR_RETURN_IF_ERROR(PlaceConstant(node));
    }
    for (const auto& [source, copy] : copies_) {
      const bool is_to_host = copy.node->op_name() == kCopyToHostOp;
      if (is_to_host && !is_awaited_.contains(copy.node)) {
        graph_.SetAttr(copy.node, kOnlyFetchedAttr, AttrValue(true));
      }
    }
    return absl::OkStatus();
  }

 private:
  ArgumentKinds KindsOf(Node& node) {
    const std::string& op = node.op_name();
    if (IsFlow(op)) return KindsOfFlow(node);
    if (IsConstant(node)) return {.outputs = {UsualKind(node.output_type(0))}};
    if (IsAlias(op)) return {.inputs = {KindOf(node.input(0))}, .outputs = {KindOf(node.input(0))}};
    if (op == kArgOp) return {.outputs = {MemoryKind::kHost}};
    if (op == kRetvalOp) return {.inputs = {MemoryKind::kHost}};
    if (node.num_inputs() + node.num_outputs() == 0) return {};
    if (BelongsOnHost(node) || IsReshapeForHost(node)) {
      graph_.SetAttr(&node, kOnHostAttr, AttrValue(true));
      return AllOnHost(node);
    }
    return kernels_.KindsOf(node, device_type_);
  }

  static ArgumentKinds KindsOfFlow(const Node& node) {
    ArgumentKinds kinds;
    for (const Output& input : node.inputs()) kinds.inputs.push_back(UsualKind(input.dtype()));
    for (const DType dtype : node.output_types()) kinds.outputs.push_back(UsualKind(dtype));
    return kinds;
  }

  MemoryKind KindOf(const Output& output) const { return outputs_[output.node->id()][output.index]; }

  void FindReshapesForDevice(const std::vector<Node*>& order) {
    for (const Node* const node : order) {
      for (int k = 0; k < node->num_inputs(); ++k) {
        const Node* const source = node->input(k).node;
        if (IsReshape(*source) && !WantsOnHost(*node, k)) reshapes_for_device_.insert(source);
      }
    }
  }

  // Whether input k is read on the host, as far as the node's own definition says it.
  bool WantsOnHost(const Node& node, int k) const {
    const std::string& op = node.op_name();
    if (op == kRetvalOp) return true;
    if (IsFlow(op) || IsAlias(op) || IsReshape(node)) return false;
    return kernels_.KindsOf(node, device_type_).inputs[k] == MemoryKind::kHost;
  }

  // Integers that are on the host and are wanted nowhere else, in another shape: ids that Unique looks at.
  bool IsReshapeForHost(const Node& node) const {
    return IsReshape(node) && !reshapes_for_device_.contains(&node) &&
           KindOf(node.input(0)) == MemoryKind::kHost && !IsConstant(*node.input(0).node) &&
           kernels_.HasKernel(node, "CPU");
  }

  // True for small integer arithmetic on what is on the host.
  bool BelongsOnHost(const Node& node) const {
    if (node.op().is_stateful() || node.num_inputs() == 0 || node.num_outputs() == 0) return false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!IsInteger(node.output_type(i)) || !IsSmall(node.output_shape(i))) return false;
    }
    for (const Output& input : node.inputs()) {
      const bool is_there = IsConstant(*input.node) || KindOf(input) == MemoryKind::kHost;
      if (!is_there || !IsInteger(input.dtype()) || !IsSmall(input.shape())) return false;
    }
    return kernels_.HasKernel(node, "CPU") && kernels_.KindsOf(node, device_type_).own == MemoryKind::kDevice;
  }

  // Lets the node's input k come from where it is wanted.
  absl::Status Move(Node* node, int k, MemoryKind wanted) {
    const Output source = node->input(k);
    if (IsConstant(*source.node)) {
      ConstantUses& uses = constants_[source.node];
      if (wanted == MemoryKind::kHost) {
        uses.on_host.push_back({node, k});
      } else {
        uses.is_on_device = true;
      }
      return absl::OkStatus();
    }
    if (KindOf(source) == wanted) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Output copy, CopyOf(source, wanted));
    graph_.SetInput(node, k, copy);
    const bool is_result = node->op_name() == kRetvalOp && node->FindAttr(kEdgeAttr) == nullptr;
    if (!is_result) is_awaited_.insert(copy.node);
    return absl::OkStatus();
  }

  // A constant that is wanted in both memories becomes two.
  absl::Status PlaceConstant(Node* constant) {
    const ConstantUses& uses = constants_[constant];
    if (!uses.is_on_device) {
      graph_.SetAttr(constant, kOnHostAttr, AttrValue(true));
      return absl::OkStatus();
    }
    if (uses.on_host.empty()) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Node * twin, graph_.AddNode({.op = "Const",
                                                       .name = absl::StrCat("_on_host/", constant->name()),
                                                       .control_inputs = {constant->control_inputs().begin(),
                                                                          constant->control_inputs().end()},
                                                       .attrs = constant->attrs()}));
    graph_.SetAssignedDevice(twin, constant->assigned_device());
    graph_.SetAttr(twin, kOnHostAttr, AttrValue(true));
    for (const auto& [node, k] : uses.on_host) graph_.SetInput(node, k, twin->output(0));
    return absl::OkStatus();
  }

  absl::StatusOr<Output> CopyOf(const Output& source, MemoryKind kind) {
    Output& copy = copies_[source];
    if (copy) return copy;
    const bool is_to_host = kind == MemoryKind::kHost;
    WEIR_ASSIGN_OR_RETURN(Node * node,
                          graph_.AddNode({.op = is_to_host ? kCopyToHostOp : kCopyToDeviceOp,
                                          .name = absl::StrCat(is_to_host ? "_to_host/" : "_to_device/",
                                                               source.node->name(), "_", source.index),
                                          .inputs = {source}}));
    graph_.SetAssignedDevice(node, source.node->assigned_device());
    return copy = node->output(0);
  }

  Graph& graph_;
  const absl::string_view device_type_;
  const KernelRegistry& kernels_;
  std::vector<std::vector<MemoryKind>> outputs_;  // by node id
  absl::flat_hash_map<Output, Output> copies_;
  absl::flat_hash_set<const Node*> is_awaited_;  // copies that some node reads
  absl::flat_hash_set<const Node*> reshapes_for_device_;
  absl::flat_hash_map<Node*, ConstantUses> constants_;
};

}  // namespace

ArgumentKinds AllOnHost(const Node& node) {
  return {.own = MemoryKind::kHost,
          .inputs = std::vector<MemoryKind>(node.num_inputs(), MemoryKind::kHost),
          .outputs = std::vector<MemoryKind>(node.num_outputs(), MemoryKind::kHost)};
}

Output UncopiedOutput(const Output& output) {
  const std::string& op = output.node->op_name();
  return op == kCopyToHostOp || op == kCopyToDeviceOp ? output.node->input(0) : output;
}

absl::Status InsertCopies(Graph& graph, absl::string_view device_type, const KernelRegistry& kernels) {
  return CopyInserter(graph, device_type, kernels).Insert();
}

}  // namespace weir
