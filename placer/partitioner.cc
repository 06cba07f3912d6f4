#include "placer/partitioner.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/loops.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Null where it has none.
const int64_t* IntegerOf(const Node& node, absl::string_view attr) {
  const AttrValue* const value = node.FindAttr(attr);
  return value == nullptr ? nullptr : value->get_if<int64_t>();
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

  // A device sees no more than its own part of a collective.
  void CountMembers() {
    struct Members {
      std::set<std::string> devices;
      std::vector<const Node*> nodes;
    };
    std::map<std::tuple<std::string, int64_t, int64_t>, Members> collectives;  // by task and keys
    for (const auto& node : placed_.nodes()) {
      const int64_t* const group = IntegerOf(*node, "group_key");
      const int64_t* const instance = IntegerOf(*node, "instance_key");
      if (group == nullptr || instance == nullptr) continue;
      Members& members = collectives[{node->assigned_device().TaskString(), *group, *instance}];
      members.devices.insert(node->assigned_device().ToString());
      members.nodes.push_back(node.get());
    }
    for (const auto& [keys, members] : collectives) {
      const auto num_devices = static_cast<int64_t>(members.devices.size());
      for (const Node* node : members.nodes) {
        PartitionOf(node->assigned_device()).SetAttr(copies_[node->id()], kMembersHereAttr, num_devices);
      }
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
