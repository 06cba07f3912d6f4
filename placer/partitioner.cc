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
#include "placer/loop_devices.h"

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
  explicit Partitioner(const Graph& placed) : placed_(placed), copies_(placed.num_nodes()) {}

  absl::StatusOr<PartitionedGraph> Run() {
    WEIR_ASSIGN_OR_RETURN(places_, FindLoopDevices(placed_));
    for (const auto& node : placed_.nodes()) {
      if (node->op_name() == kRetvalOp) WEIR_RETURN_IF_ERROR(CheckFetch(places_.loops, *node));
      for (const DeviceName& device : places_.of_node[node->id()]) AddCopy(*node, device);
    }
    for (size_t i = 0; i < places_.of_loop.size(); ++i) {
      if (!places_.of_loop[i].spans_devices()) continue;
      for (const DeviceName& device : places_.of_loop[i].devices) {
        WEIR_RETURN_IF_ERROR(AddControlLoop(i, device));
      }
    }
    for (const auto& node : placed_.nodes()) {
      for (const DeviceName& device : places_.of_node[node->id()]) {
        WEIR_RETURN_IF_ERROR(Connect(*node, device));
      }
    }
    for (size_t i = 0; i < places_.of_loop.size(); ++i) {
      if (places_.of_loop[i].spans_devices()) WEIR_RETURN_IF_ERROR(BoundLead(i));
    }
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

  void AddCopy(const Node& node, const DeviceName& device) {
    Graph& graph = PartitionOf(device);
    Node* const copy = graph.AddCopy(node, {}, {});
    graph.SetAssignedDevice(copy, device);
    copies_[node.id()].push_back(copy);
  }

  // Null where the node does not run on the device.
  Node* CopyOn(const Node& node, const DeviceName& device) const {
    const std::vector<DeviceName>& devices = places_.of_node[node.id()];
    const auto found = std::find(devices.begin(), devices.end(), device);
    return found == devices.end() ? nullptr : copies_[node.id()][found - devices.begin()];
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
          .SetAttr(copies_[node->id()].front(), kMembersHereAttr, static_cast<int64_t>(num_devices));
    }
  }

  absl::Status Connect(const Node& node, const DeviceName& device) {
    std::vector<Output> inputs;
    for (const Output& input : node.inputs()) {
      WEIR_ASSIGN_OR_RETURN(Output local, LocalInput(input, device, node));
      inputs.push_back(local);
    }
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      WEIR_ASSIGN_OR_RETURN(Node * local, LocalControl(*before, device));
      control.push_back(local);
    }
    PartitionOf(device).Connect(CopyOn(node, device), std::move(inputs), std::move(control));
    return absl::OkStatus();
  }

  absl::StatusOr<Output> LocalInput(const Output& input, const DeviceName& to, const Node& consumer) {
    if (Node* here = CopyOn(*input.node, to)) return Output{here, input.index};
    const DeviceName& from = places_.of(*input.node);
    if (input.dtype() == DType::kResource) {
      return absl::InvalidArgumentError(absl::StrCat("resource handle '", input.name(), "' would cross from ",
                                                     from.ToString(), " to ", to.ToString(), " for ",
                                                     consumer.Describe()));
    }
    if (Node* known = Find(input.name(), to)) return Output{known, 0};
    const Output source = {CopyOn(*input.node, from), input.index};
    WEIR_ASSIGN_OR_RETURN(Node * recv, Cross(source, {input.name(), from, to}, LoopOf(*input.node)));
    return Output{recv, 0};
  }

  absl::StatusOr<Node*> LocalControl(const Node& before, const DeviceName& to) {
    if (Node* here = CopyOn(before, to)) return here;
    const DeviceName& from = places_.of(before);
    const std::string name = absl::StrCat("^", before.name());
    if (Node* known = Find(name, to)) return known;
    WEIR_ASSIGN_OR_RETURN(Node * signal,
                          AddEmpty(absl::StrCat("_signal_", before.name()), from, {CopyOn(before, from)}));
    return Cross({signal, 0}, {name, from, to, ""}, LoopOf(before));
  }

  // In whose iterations what the node gives is there.
  int LoopOf(const Node& node) const {
    return places_.loops.loops.empty() ? kNoLoop : places_.loops.gives_to[node.id()];
  }

  // An empty constant that is there once those before it have run.
  absl::StatusOr<Node*> AddEmpty(absl::string_view name, const DeviceName& device,
                                 std::vector<Node*> control_inputs) {
    return Add(device,
               {.op = "Const",
                .name = std::string(name),
                .control_inputs = std::move(control_inputs),
                .attrs = {{"value", Tensor(DType::kFloat32, Shape({0}))}, {"dtype", DType::kFloat32}}});
  }

  absl::StatusOr<Node*> Add(const DeviceName& device, NodeSpec spec) {
    Graph& graph = PartitionOf(device);
    while (graph.FindNode(spec.name) != nullptr) spec.name += "_";
    WEIR_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(spec)));
    graph.SetAssignedDevice(node, device);
    return node;
  }

  // Repeats the loop's iterations on the device as often as its LoopCond says, whatever else of the loop is
  // there: what is received in an iteration follows this loop's Merge, which is alive in every iteration and
  // also where the loop is entered dead. So both ends of each edge have the same iterations.
  // Its NextIteration has kInLoopAttr: the program takes from it whether the loop has ended.
  absl::Status AddControlLoop(int loop, const DeviceName& device) {
    const auto& [name, parent] = places_.loops.loops[loop];
    const auto named = [&name = name](absl::string_view part) {
      return absl::StrCat("_loop_", name, "/", part);
    };
    std::vector<Node*> outside;
    if (parent != kNoLoop) outside.push_back(PivotOf(parent, device));
    WEIR_ASSIGN_OR_RETURN(Node * begin, AddEmpty(named("begin"), device, std::move(outside)));
    WEIR_ASSIGN_OR_RETURN(Node * enter, Add(device, {.op = "Enter",
                                                     .name = named("enter"),
                                                     .inputs = {begin->output(0)},
                                                     .attrs = {{"frame_name", name}}}));
    const std::vector<Output> first = {enter->output(0), enter->output(0)};
    WEIR_ASSIGN_OR_RETURN(Node * merge,
                          Add(device, {.op = "Merge", .name = named("merge"), .inputs = {first}}));
    pivots_[{loop, device.ToString()}] = merge;
    const Node& condition = *places_.of_loop[loop].condition;
    WEIR_ASSIGN_OR_RETURN(const Output goes_on,
                          LocalInput({const_cast<Node*>(&condition), 0}, device, condition));
    WEIR_ASSIGN_OR_RETURN(
        Node * choice,
        Add(device, {.op = "Switch", .name = named("switch"), .inputs = {merge->output(0), goes_on}}));
    WEIR_ASSIGN_OR_RETURN(Node * next, Add(device, {.op = "NextIteration",
                                                    .name = named("next"),
                                                    .inputs = {choice->output(1)},
                                                    .attrs = {{kInLoopAttr, true}}}));
    PartitionOf(device).SetInput(merge, 1, next->output(0));
    return absl::OkStatus();
  }

  // Precondition: the loop spans devices, and this is one of them.
  Node* PivotOf(int loop, const DeviceName& device) const { return pivots_.at({loop, device.ToString()}); }

  // The device of the LoopCond must not run ahead of another without an end: what it sends would pile up
  // there. One that sends it something in every iteration is waited for anyway.
  absl::Status BoundLead(int loop) {
    const DeviceName& leader = places_.of(*places_.of_loop[loop].condition);
    for (const DeviceName& device : places_.of_loop[loop].devices) {
      if (device == leader || crossed_.contains({loop, device.ToString(), leader.ToString()})) continue;
      Node* const pivot = PivotOf(loop, device);
      WEIR_ASSIGN_OR_RETURN(Node * signal,
                            AddEmpty(absl::StrCat("_signal_", pivot->name()), device, {pivot}));
      WEIR_ASSIGN_OR_RETURN(Node * recv,
                            Cross({signal, 0}, {absl::StrCat("^", pivot->name()), device, leader, ""}, loop));
      PartitionOf(leader).SetAttr(recv, kHeadStartAttr, int64_t{kLoopLead});
    }
    return absl::OkStatus();
  }

  Node* Find(const std::string& tensor_name, const DeviceName& to) const {
    auto found = recvs_.find({tensor_name, to.ToString()});
    return found == recvs_.end() ? nullptr : found->second;
  }

  // `loop`: in whose iterations the tensor is made, and crosses.
  absl::StatusOr<Node*> Cross(Output source, CrossingEdge crossing, int loop) {
    const auto& [tensor_name, from, to, loop_name] = crossing;
    const int64_t edge = result_.edges.size();
    AttrMap attrs = {{"tensor_name", tensor_name},
                     {"send_device", from.ToString()},
                     {"send_device_incarnation", 0},
                     {"recv_device", to.ToString()},
                     {kEdgeAttr, edge}};
    std::vector<Node*> pivot;
    if (loop != kNoLoop) {
      attrs.emplace(kInLoopAttr, true);
      pivot.push_back(PivotOf(loop, to));
      crossing.loop = places_.loops.loops[loop].name;
      crossed_.emplace(loop, from.ToString(), to.ToString());
    }
    WEIR_RETURN_IF_ERROR(
        Add(from, {.op = kSendOp, .name = absl::StrCat("_send_", edge), .inputs = {source}, .attrs = attrs})
            .status());
    attrs.emplace("tensor_type", source.dtype());
    WEIR_ASSIGN_OR_RETURN(Node * recv, Add(to, {.op = kRecvOp,
                                                .name = absl::StrCat("_recv_", edge),
                                                .control_inputs = std::move(pivot),
                                                .attrs = std::move(attrs)}));
    recvs_.emplace(std::pair(tensor_name, to.ToString()), recv);
    result_.edges.push_back(std::move(crossing));
    return recv;
  }

  const Graph& placed_;
  LoopDevices places_;
  std::vector<std::vector<Node*>> copies_;  // by id in placed_; as places_.of_node
  std::map<std::string, Partition> by_device_;
  absl::flat_hash_map<std::pair<std::string, std::string>, Node*> recvs_;  // by (tensor, receiving device)
  std::map<std::pair<int, std::string>, Node*> pivots_;          // of control loops, by loop and device
  std::set<std::tuple<int, std::string, std::string>> crossed_;  // by loop, sender and receiver
  PartitionedGraph result_;
};

}  // namespace

absl::StatusOr<PartitionedGraph> PartitionByDevice(const Graph& placed) { return Partitioner(placed).Run(); }

}  // namespace weir
