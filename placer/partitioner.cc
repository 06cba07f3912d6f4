#include "placer/partitioner.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/loops.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"

namespace weir {
namespace {

// The integer that the output always is, whatever it waits for: calls of functions put other nodes before
// constants, and pass them on.
std::optional<int64_t> ConstantInteger(Output output) {
  constexpr int kMostNodes = 256;  // more than calls can be nested
  const auto passes_on = [](const Node& node) {
    return node.op_name() == "Identity" || node.op_name() == "Enter";
  };
  for (int i = 0; i < kMostNodes && passes_on(*output.node); ++i) output = output.node->input(0);
  if (output.node->op_name() != "Const") return std::nullopt;
  const Tensor* const value = output.node->FindAttr("value")->get_if<Tensor>();
  if (value == nullptr || value->num_elements() != 1) return std::nullopt;
  if (value->dtype() == DType::kInt32) return value->flat<int32_t>()[0];
  return value->dtype() == DType::kInt64 ? std::make_optional(value->flat<int64_t>()[0]) : std::nullopt;
}

// A node's attr or input of this name; nullopt where it has none, or one that is no constant.
std::optional<int64_t> IntegerOf(const Node& node, absl::string_view name) {
  const AttrValue* const attr = node.FindAttr(name);
  if (attr != nullptr) {
    const int64_t* const integer = attr->get_if<int64_t>();
    return integer == nullptr ? std::nullopt : std::make_optional(*integer);
  }
  int index = 0;
  for (const ArgDef& input : node.op().inputs()) {
    if (input.is_list() || index >= node.num_inputs()) return std::nullopt;
    if (input.name == name) return ConstantInteger(node.input(index));
    ++index;
  }
  return std::nullopt;
}

bool HasKeysAsInputs(const Node& node) {
  const std::vector<ArgDef>& inputs = node.op().inputs();
  const auto has = [&inputs](absl::string_view name) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [name](const ArgDef& input) { return input.name == name; });
  };
  return has("group_key") && has("instance_key");
}

class Partitioner {
 public:
  explicit Partitioner(const Graph& placed) : placed_(placed), copies_(placed.num_nodes(), nullptr) {}

  absl::StatusOr<PartitionedGraph> Run() {
    for (const auto& node : placed_.nodes()) {
      copies_[node->id()] = PartitionOf(node->assigned_device()).AddCopy(*node, {}, {});
    }
    if (HasControlFlow(placed_)) {
      WEIR_ASSIGN_OR_RETURN(loops_, FindLoops(placed_));
    }
    for (const auto& node : placed_.nodes()) WEIR_RETURN_IF_ERROR(Connect(*node));
    CountMembers();
    for (auto& [name, partition] : by_device_) result_.partitions.push_back(std::move(partition));
    return std::move(result_);
  }

 private:
  Graph& PartitionOf(const DeviceName& device) {
    Partition& partition = by_device_[device.ToString()];
    if (!partition.graph) partition = {device, std::make_unique<Graph>(placed_.ops())};
    return *partition.graph;
  }

  // A device sees no more than its own part of a collective. Nodes whose keys are no constants may belong to
  // any that has its keys as inputs, and count there.
  void CountMembers() {
    struct Members {
      std::set<std::string> devices;
      std::vector<const Node*> nodes;
      bool have_inputs = false;
    };
    std::map<std::tuple<std::string, int64_t, int64_t>, Members> collectives;  // by task and keys
    std::map<std::string, Members> unknown, with_inputs;                       // by task
    for (const auto& node : placed_.nodes()) {
      const std::optional<int64_t> group = IntegerOf(*node, "group_key");
      const std::optional<int64_t> instance = IntegerOf(*node, "instance_key");
      const bool has_inputs = HasKeysAsInputs(*node);
      if (!(group && instance) && !has_inputs) continue;
      const std::string task = node->assigned_device().TaskString();
      const std::string device = node->assigned_device().ToString();
      Members& members = group && instance ? collectives[{task, *group, *instance}] : unknown[task];
      members.devices.insert(device);
      members.nodes.push_back(node.get());
      members.have_inputs = members.have_inputs || has_inputs;
      if (has_inputs) with_inputs[task].devices.insert(device);
    }
    for (auto& [keys, members] : collectives) {
      const auto others = unknown.find(std::get<0>(keys));
      if (members.have_inputs && others != unknown.end()) {
        members.devices.insert(others->second.devices.begin(), others->second.devices.end());
      }
      NoteMembers(members.nodes, members.devices.size());
    }
    for (const auto& [task, members] : unknown) NoteMembers(members.nodes, with_inputs[task].devices.size());
  }

  void NoteMembers(const std::vector<const Node*>& nodes, size_t num_devices) {
    for (const Node* node : nodes) {
      PartitionOf(node->assigned_device())
          .SetAttr(copies_[node->id()], kMembersHereAttr, static_cast<int64_t>(num_devices));
    }
  }

  absl::Status Connect(const Node& node) {
    std::vector<Output> inputs;
    for (const Output& input : node.inputs()) {
      WEIR_ASSIGN_OR_RETURN(Output local, LocalInput(input, node));
      inputs.push_back(local);
    }
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      WEIR_ASSIGN_OR_RETURN(Node * local, LocalControl(*before, node));
      control.push_back(local);
    }
    PartitionOf(node.assigned_device()).Connect(copies_[node.id()], std::move(inputs), std::move(control));
    return absl::OkStatus();
  }

  absl::StatusOr<Output> LocalInput(const Output& input, const Node& consumer) {
    const DeviceName& from = input.node->assigned_device();
    const DeviceName& to = consumer.assigned_device();
    if (from == to) return Output{copies_[input.node->id()], input.index};
    if (input.dtype() == DType::kResource) {
      return absl::InvalidArgumentError(absl::StrCat("resource handle '", input.name(), "' would cross from ",
                                                     from.ToString(), " to ", to.ToString(), " for ",
                                                     consumer.Describe()));
    }
    WEIR_RETURN_IF_ERROR(CheckLeavesNoLoop(*input.node, consumer));
    const Output source = {copies_[input.node->id()], input.index};
    WEIR_ASSIGN_OR_RETURN(Node * recv, Cross(source, input.name(), from, to));
    return Output{recv, 0};
  }

  absl::StatusOr<Node*> LocalControl(const Node& before, const Node& consumer) {
    const DeviceName& from = before.assigned_device();
    const DeviceName& to = consumer.assigned_device();
    if (from == to) return copies_[before.id()];
    WEIR_RETURN_IF_ERROR(CheckLeavesNoLoop(before, consumer));
    const std::string name = absl::StrCat("^", before.name());
    if (Node* known = Find(name, to)) return known;
    WEIR_ASSIGN_OR_RETURN(Node * signal, AddSignal(before, from));
    return Cross({signal, 0}, name, from, to);
  }

  // An edge of the plan carries one tensor in a step, one in a loop would carry one in each iteration.
  absl::Status CheckLeavesNoLoop(const Node& before, const Node& consumer) const {
    if (loops_.loops.empty() || loops_.gives_to[before.id()] == kNoLoop) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "the loop '", loops_.loops[loops_.gives_to[before.id()]].name, "' spans devices: ", before.Describe(),
        " is on ", before.assigned_device().ToString(), ", ", consumer.Describe(), " on ",
        consumer.assigned_device().ToString(), "; put what the loop needs from elsewhere in front of it"));
  }

  // An empty constant that is there once `before` has run.
  absl::StatusOr<Node*> AddSignal(const Node& before, const DeviceName& device) {
    Graph& graph = PartitionOf(device);
    const std::string name = FreeName(graph, absl::StrCat("_signal_", before.name()));
    WEIR_ASSIGN_OR_RETURN(Node * signal,
                          graph.AddNode({.op = "Const",
                                         .name = name,
                                         .control_inputs = {copies_[before.id()]},
                                         .attrs = {{"value", Tensor(DType::kFloat32, Shape({0}))},
                                                   {"dtype", DType::kFloat32}}}));
    graph.SetAssignedDevice(signal, device);
    return signal;
  }

  Node* Find(const std::string& tensor_name, const DeviceName& to) const {
    auto found = recvs_.find({tensor_name, to.ToString()});
    return found == recvs_.end() ? nullptr : found->second;
  }

  absl::StatusOr<Node*> Cross(Output source, const std::string& tensor_name, const DeviceName& from,
                              const DeviceName& to) {
    if (Node* known = Find(tensor_name, to)) return known;
    const int64_t edge = result_.edges.size();
    const AttrMap attrs = {{"tensor_name", tensor_name},
                           {"send_device", from.ToString()},
                           {"send_device_incarnation", 0},
                           {"recv_device", to.ToString()},
                           {kEdgeAttr, edge}};
    Graph& sender = PartitionOf(from);
    Graph& receiver = PartitionOf(to);
    WEIR_ASSIGN_OR_RETURN(Node * send, sender.AddNode({.op = kSendOp,
                                                       .name = FreeName(sender, absl::StrCat("_send_", edge)),
                                                       .inputs = {source},
                                                       .attrs = attrs}));
    AttrMap recv_attrs = attrs;
    recv_attrs.emplace("tensor_type", source.dtype());
    WEIR_ASSIGN_OR_RETURN(Node * recv,
                          receiver.AddNode({.op = kRecvOp,
                                            .name = FreeName(receiver, absl::StrCat("_recv_", edge)),
                                            .attrs = std::move(recv_attrs)}));
    sender.SetAssignedDevice(send, from);
    receiver.SetAssignedDevice(recv, to);
    result_.edges.push_back({tensor_name, from, to});
    recvs_.emplace(std::pair(tensor_name, to.ToString()), recv);
    return recv;
  }

  static std::string FreeName(const Graph& graph, std::string name) {
    while (graph.FindNode(name) != nullptr) name += "_";
    return name;
  }

  const Graph& placed_;
  Loops loops_;
  std::vector<Node*> copies_;  // by id in placed_
  std::map<std::string, Partition> by_device_;
  absl::flat_hash_map<std::pair<std::string, std::string>, Node*> recvs_;  // by (tensor, receiving device)
  PartitionedGraph result_;
};

}  // namespace

absl::StatusOr<PartitionedGraph> PartitionByDevice(const Graph& placed) { return Partitioner(placed).Run(); }

}  // namespace weir
