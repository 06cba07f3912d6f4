#include "graph/interchange/references.h"

#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/input_name.h"
#include "graph/interchange/old_handles.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/reference_buffers.h"
#include "graph/types/device_name.h"

namespace weir {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

enum class Role {
  kNone,      // knows nothing of references: reads the values of those it is given
  kVariable,  // makes one
  kUpdate,    // changes the variable and passes its first input's reference on
  kQuery,     // takes one and gives an ordinary tensor
  kPass,      // only passes its first input's reference on
  kFlow,      // gives references that depend on which of its inputs or outputs is alive
  kHandle,    // makes or takes a handle that is a reference to a string
};

struct Counterpart {
  Role role = Role::kNone;
  std::string op;
};

Counterpart KnownCounterpart(absl::string_view op) {
  static const auto* const kByOp = new std::map<absl::string_view, Counterpart>{
      {"Variable", {Role::kVariable, "VarHandleOp"}},
      {"VariableV2", {Role::kVariable, "VarHandleOp"}},
      {"TemporaryVariable", {Role::kVariable, "WeirTemporaryVariable"}},
      {"DestroyTemporaryVariable", {Role::kQuery, "WeirDestroyTemporaryVariable"}},
      {"Assign", {Role::kUpdate, "AssignVariableOp"}},
      {"AssignAdd", {Role::kUpdate, "AssignAddVariableOp"}},
      {"AssignSub", {Role::kUpdate, "AssignSubVariableOp"}},
      {"ScatterAdd", {Role::kUpdate, "ResourceScatterAdd"}},
      {"ScatterSub", {Role::kUpdate, "ResourceScatterSub"}},
      {"ScatterMul", {Role::kUpdate, "ResourceScatterMul"}},
      {"ScatterDiv", {Role::kUpdate, "ResourceScatterDiv"}},
      {"ScatterMin", {Role::kUpdate, "ResourceScatterMin"}},
      {"ScatterMax", {Role::kUpdate, "ResourceScatterMax"}},
      {"ScatterUpdate", {Role::kUpdate, "ResourceScatterUpdate"}},
      {"ScatterNdAdd", {Role::kUpdate, "ResourceScatterNdAdd"}},
      {"ScatterNdSub", {Role::kUpdate, "ResourceScatterNdSub"}},
      {"ScatterNdMin", {Role::kUpdate, "ResourceScatterNdMin"}},
      {"ScatterNdMax", {Role::kUpdate, "ResourceScatterNdMax"}},
      {"ScatterNdUpdate", {Role::kUpdate, "ResourceScatterNdUpdate"}},
      {"StridedSliceAssign", {Role::kUpdate, "ResourceStridedSliceAssign"}},
      {"IsVariableInitialized", {Role::kQuery, "VarIsInitializedOp"}},
      {"CountUpTo", {Role::kQuery, "ResourceCountUpTo"}},
      {"RefIdentity", {Role::kPass, "NoOp"}},
      {"RefSwitch", {Role::kFlow, "Switch"}},
      {"RefMerge", {Role::kFlow, "Merge"}},
      {"RefEnter", {Role::kFlow, "Enter"}},
      {"RefExit", {Role::kFlow, "Exit"}},
      {"RefNextIteration", {Role::kFlow, "NextIteration"}},
  };
  if (const auto found = kByOp->find(op); found != kByOp->end()) return found->second;
  if (absl::StartsWith(op, "Apply") || absl::StartsWith(op, "SparseApply")) {
    return {Role::kUpdate, absl::StrCat("Resource", op)};
  }
  if (std::string successor = SuccessorOfOldHandle(op); !successor.empty()) {
    return {Role::kHandle, std::move(successor)};
  }
  return {};
}

// A registry that has an op with references uses it as it is.
Role RoleOf(const OpRegistry& ops, const NodeDef& node) {
  const Role role = KnownCounterpart(node.op()).role;
  return role != Role::kNone && ops.Find(node.op()) != nullptr ? Role::kNone : role;
}

// Whether output `output` of a node of that role is a reference.
bool IsReference(Role role, absl::string_view op, int output) {
  switch (role) {
    case Role::kVariable:
    case Role::kUpdate:
    case Role::kPass:
      return output == 0;
    case Role::kFlow:
      return output == 0 || (output == 1 && op == "RefSwitch");
    case Role::kNone:
    case Role::kQuery:
    case Role::kHandle:
      return false;
  }
  return false;
}

// References have types of their own: 100 more than those of their values.
int TypeAttr(const NodeDef& node, const char* name) {
  const auto attr = node.attr().find(name);
  return attr == node.attr().end() ? 0 : attr->second.type() % 100;
}

// Nodes that are named twice, or are empty, count once, or not at all.
void AddControls(const std::vector<std::string>& before, NodeDef* node) {
  absl::flat_hash_set<absl::string_view> seen = {""};
  for (const std::string& name : before) {
    if (seen.insert(name).second) node->add_input(absl::StrCat("^", name));
  }
}

// Runs when the first of its inputs is there.
bool IsMerge(const NodeDef& node) { return node.op() == "Merge"; }

bool IsIdentity(const NodeDef& node) { return node.op() == "Identity"; }

Passage PassageOf(const NodeDef& node) {
  const Passage passage = weir::PassageOf(node.op());
  if (passage == Passage::kTyped) {
    const bool is_cast = node.op() == "Cast";
    const int from = TypeAttr(node, is_cast ? "SrcT" : "T"), to = TypeAttr(node, is_cast ? "DstT" : "type");
    return from == to ? Passage::kSame : Passage::kNone;
  }
  if (passage != Passage::kEnter) return passage;
  // One that is not constant leads to a Merge, which passes on what is alive.
  const auto is_constant = node.attr().find("is_constant");
  return is_constant != node.attr().end() && is_constant->second.b() ? passage : Passage::kNone;
}

// Whether two nodes that ask for these devices may be on the same one.
bool MayBeTogether(const std::string& a, const std::string& b) {
  if (a == b || a.empty() || b.empty()) return true;
  const absl::StatusOr<DeviceName> first = DeviceName::Parse(a), second = DeviceName::Parse(b);
  return first.ok() && second.ok() && MayBeTogether(*first, *second);
}

bool IsControl(absl::string_view input) { return absl::StartsWith(input, "^"); }

std::vector<std::string> ControlInputs(const NodeDef& node) {
  std::vector<std::string> names;
  for (const std::string& input : node.input()) {
    if (IsControl(input)) names.push_back(input.substr(1));
  }
  return names;
}

// Whether `node`, which becomes `op`, takes a handle for that input.
bool TakesHandle(Role role, const NodeDef& node, const Op& op, int input) {
  switch (role) {
    case Role::kFlow:
      return input == 0 || node.op() == "RefMerge";
    case Role::kPass:
      return input == 0;
    default:
      return input < static_cast<int>(op.inputs().size()) && op.inputs()[input].dtype == DType::kResource;
  }
}

// Name, device, and the attrs that are notes or belong to the new op as well.
void Begin(const NodeDef& node, const Op& op, NodeDef* lowered) {
  lowered->set_name(node.name());
  lowered->set_op(op.name());
  lowered->set_device(node.device());
  for (const auto& [name, value] : node.attr()) {
    if (absl::StartsWith(name, "_") || op.FindAttr(name) != nullptr) (*lowered->mutable_attr())[name] = value;
  }
  if (op.FindAttr("dtype") != nullptr && node.attr().contains("T")) {
    (*lowered->mutable_attr())["dtype"] = node.attr().at("T");
  }
}

}  // namespace

std::string CounterpartOfReference(absl::string_view op) { return KnownCounterpart(op).op; }

ReferenceLowering::ReferenceLowering(const GraphDef& def, const Graph& graph)
    : def_(def), graph_(graph), passed_handles_(def, graph) {
  for (const NodeDef& node : def.node()) {
    nodes_.emplace(node.name(), &node);
    is_needed_ = is_needed_ || RoleOf(graph_.ops(), node) != Role::kNone;
  }
  is_needed_ = is_needed_ || !passed_handles_.is_empty();
  if (is_needed_ || !graph.has_stand_ins()) return;
  for (const NodeDef& node : def.node()) {
    for (const std::string& input : node.input()) {
      is_needed_ = is_needed_ || Resolve(input).has_value() || Resolve(input, Way::kBuffers).has_value();
    }
  }
}

const NodeDef* ReferenceLowering::Find(absl::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : found->second;
}

// An output that is a reference by itself: a variable's, one of control flow, one of the graph.
std::optional<ReferenceLowering::Reference> ReferenceLowering::ResolveSource(absl::string_view name,
                                                                             int output, Way way) const {
  if (const NodeDef* node = Find(name)) {
    const Role role = RoleOf(graph_.ops(), *node);
    if (role != Role::kVariable && role != Role::kFlow) return std::nullopt;
    if (!IsReference(role, node->op(), output)) return std::nullopt;
    return Reference{.handle = InputNameOf(name, output),
                     .dtype = TypeAttr(*node, role == Role::kVariable ? "dtype" : "T"),
                     .device = node->device()};
  }
  Node* const node = graph_.FindNode(name);
  if (node == nullptr) return std::nullopt;
  if (way == Way::kBuffers && output == 0 && ReadsReference(*node)) {
    const Output handle = node->input(0);
    // Without a device it is beside the variable.
    const Node* const place = node->requested_device().is_empty() ? handle.node : node;
    return Reference{.handle = InputNameOf(handle.node->name(), handle.index),
                     .after = node->name(),
                     .dtype = static_cast<int>(node->output_type(0)),
                     .device = place->requested_device().ToString()};
  }
  const std::optional<Output> read = graph_.StandIn({node, output});
  if (!read) return std::nullopt;
  const Output handle = read->node->input(0);
  const auto& before = read->node->control_inputs();
  return Reference{.handle = InputNameOf(handle.node->name(), handle.index),
                   .after = before.empty() ? "" : before[0]->name(),
                   .dtype = static_cast<int>(read->dtype()),
                   .device = read->node->requested_device().ToString()};
}

std::optional<ReferenceLowering::Reference> ReferenceLowering::Resolve(absl::string_view input, Way way) {
  const absl::StatusOr<InputName> parsed = ParseInputName(input);
  if (!parsed.ok() || parsed->is_control) return std::nullopt;
  // Back through the nodes that pass it on. What was found is kept for all of them, so that a long chain is
  // walked once.
  struct Passed {
    std::string name;
    const NodeDef* node;  // null: of the graph
    Passage passage;
    std::string device;
  };
  std::vector<Passed> passed;
  std::string name(parsed->node);
  int output = parsed->output;
  std::optional<Reference> found;
  while (true) {
    if (passed_handles_.Contains(name)) break;
    const NodeDef* const node = Find(name);
    const Node* const imported = node == nullptr ? graph_.FindNode(name) : nullptr;
    const Role role = node == nullptr ? Role::kNone : RoleOf(graph_.ops(), *node);
    Passage passage = Passage::kNone;
    if (role == Role::kUpdate || role == Role::kPass) {
      passage = Passage::kSame;
    } else if (way == Way::kBuffers && (node != nullptr || imported != nullptr)) {
      passage = node != nullptr ? PassageOf(*node) : PassageOf(*imported);
    }
    if (passage == Passage::kNone) {
      found = ResolveSource(name, output, way);
      break;
    }
    if (output != 0 && passage != Passage::kSwitch) break;
    if (const auto known = resolved_.find({name, way}); known != resolved_.end()) {
      found = known->second;
      break;
    }
    resolved_[{name, way}] = std::nullopt;  // a cycle leads back to it
    if (imported != nullptr) {
      passed.push_back({name, nullptr, passage, imported->requested_device().ToString()});
      const Output next = imported->input(0);
      name = next.node->name();
      output = next.index;
      continue;
    }
    if (node->input_size() == 0) break;
    passed.push_back({name, node, passage, node->device()});
    const absl::StatusOr<InputName> next = ParseInputName(node->input(0));
    if (!next.ok() || next->is_control) break;
    name = std::string(next->node);
    output = next->output;
  }
  for (auto each = passed.rbegin(); each != passed.rend(); ++each) {
    const bool is_reference = each->node != nullptr && RoleOf(graph_.ops(), *each->node) != Role::kNone;
    // On another device it is a copy.
    if (found && !is_reference && !MayBeTogether(found->device, each->device)) found.reset();
    if (found) {
      // Which output of a Switch is alive, its consumer knows (ProducersBefore).
      found->after = each->passage == Passage::kSwitch ? "" : each->name;
      found->is_shaped = found->is_shaped || each->passage == Passage::kShaped;
      if (each->passage == Passage::kEnter) found->handle = HandleInLoop(*each->node, *found);
    }
    resolved_[{each->name, way}] = found;
  }
  return found;
}

// The node itself is added when something reads there.
std::string ReferenceLowering::HandleInLoop(const NodeDef& enter, const Reference& outside) {
  std::string name = absl::StrCat(enter.name(), "/ref_handle");
  const auto outer = handles_in_loops_.find(outside.handle);
  std::string variable = outer == handles_in_loops_.end() ? outside.handle : outer->second.variable;
  handles_in_loops_.insert(
      {name, {&enter, outside.handle, std::move(variable), outside.device, /*is_added=*/false}});
  return name;
}

// And those that it enters from. A client may make the chain as long as its graph.
void ReferenceLowering::AddHandleInLoop(const std::string& handle) {
  std::vector<std::string> missing;  // the innermost first
  for (auto found = handles_in_loops_.find(handle);
       found != handles_in_loops_.end() && !found->second.is_added;
       found = handles_in_loops_.find(found->second.outside)) {
    found->second.is_added = true;
    missing.push_back(found->first);
  }
  for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
    AddHandle(*each, handles_in_loops_.at(*each));
  }
}

void ReferenceLowering::AddHandle(const std::string& handle, const HandleEnter& added) {
  // Dead where the Enter beside it is.
  std::vector<std::string> before = ControlInputs(*added.enter);
  if (const int dtype = TypeOfSwitch(added.enter->input(0)); dtype != 0) {
    before.push_back(AddGate(*added.enter, 0, dtype));
  } else if (const auto source = ParseInputName(added.enter->input(0)); source.ok()) {
    before.emplace_back(source->node);
  }
  NodeDef* const enter = lowered_->add_node();
  enter->set_name(handle);
  enter->set_op("Enter");
  enter->set_device(added.device);
  *enter->mutable_attr() = added.enter->attr();
  enter->mutable_attr()->erase("_class");
  (*enter->mutable_attr())["T"].set_type(tensorflow::DT_RESOURCE);
  enter->add_input(added.outside);
  AddControls(before, enter);
}

void ReferenceLowering::FindNodesAfter() {
  absl::flat_hash_map<absl::string_view, std::vector<const NodeDef*>> consumers;
  for (const NodeDef& node : def_.node()) {
    for (const std::string& input : node.input()) {
      if (const auto name = ParseInputName(input); name.ok()) consumers[name->node].push_back(&node);
    }
  }
  const auto add_all_after = [&](absl::flat_hash_set<absl::string_view>& nodes) {
    std::vector<absl::string_view> open(nodes.begin(), nodes.end());
    while (!open.empty()) {
      const auto found = consumers.find(open.back());
      open.pop_back();
      if (found == consumers.end()) continue;
      for (const NodeDef* consumer : found->second) {
        if (nodes.insert(consumer->name()).second) open.push_back(consumer->name());
      }
    }
  };
  for (const NodeDef& node : def_.node()) {
    if (RoleOf(graph_.ops(), node) == Role::kUpdate) after_updates_.insert(node.name());
    has_references_in_loops_ = has_references_in_loops_ || node.op() == "RefEnter";
    if (node.op() == "Switch" || node.op() == "RefSwitch") after_switches_.insert(node.name());
    for (const std::string& input : node.input()) {
      const absl::StatusOr<InputName> name = ParseInputName(input);
      // Of what was imported before, nothing is known.
      if (name.ok() && Find(name->node) == nullptr && RunsAfterUpdate(name->node)) {
        after_updates_.insert(node.name());
      }
    }
  }
  add_all_after(after_updates_);
  add_all_after(after_switches_);
}

// A node of the graph counts as one when it may be.
bool ReferenceLowering::RunsAfterUpdate(absl::string_view name) const {
  if (Find(name) != nullptr) return after_updates_.contains(name);
  const Node* const node = graph_.FindNode(name);
  if (node == nullptr) return false;
  const bool reads_handle = ReadsReference(*node) && node->input(0).node->num_inputs() == 0;
  return (node->num_inputs() > 0 && !reads_handle) || !node->control_inputs().empty();
}

void ReferenceLowering::FindVariablesOfAnyShape() {
  for (const NodeDef& node : def_.node()) {
    if (node.op() != "Assign" || node.input_size() == 0) continue;
    const auto validates = node.attr().find("validate_shape");
    if (validates == node.attr().end() || validates->second.b()) continue;
    if (const std::optional<Reference> reference = Resolve(node.input(0)))
      any_shape_.insert(reference->handle);
  }
}

void ReferenceLowering::ForgetShapes(Graph* graph) const {
  for (const std::string& handle : any_shape_) {
    const absl::StatusOr<InputName> name = ParseInputName(handle);
    Node* variable = name.ok() ? graph->FindNode(name->node) : nullptr;
    // Control flow passes handles on as its first inputs; a loop leads back to itself.
    for (int left = graph->num_nodes(); variable != nullptr && left > 0; --left) {
      if (variable->op_name() == "VarHandleOp") {
        graph->SetAttr(variable, "shape", PartialShape());
        break;
      }
      variable = variable->num_inputs() == 0 ? nullptr : variable->input(0).node;
    }
  }
}

GraphDef ReferenceLowering::Lowered() {
  GraphDef lowered;
  *lowered.mutable_versions() = def_.versions();
  *lowered.mutable_library() = def_.library();
  lowered_ = &lowered;
  FindNodesAfter();
  FindVariablesOfAnyShape();
  for (const NodeDef& node : def_.node()) {
    NodeDef replaced;
    if (Lower(node, &replaced)) {
      *lowered.add_node() = std::move(replaced);
      AddStandInsOf(node);
    } else {
      *lowered.add_node() = node;
    }
  }
  lowered_ = nullptr;
  return lowered;
}

// False for a node that stays as it is.
bool ReferenceLowering::Lower(const NodeDef& node, NodeDef* lowered) {
  const Role role = RoleOf(graph_.ops(), node);
  const Op* const op = role == Role::kNone ? nullptr : graph_.ops().Find(KnownCounterpart(node.op()).op);
  if (passed_handles_.Contains(node.name())) return passed_handles_.Lower(node, lowered);
  switch (role) {
    case Role::kVariable: {
      if (op == nullptr) return false;
      Begin(node, *op, lowered);
      for (const std::string& input : node.input()) lowered->add_input(input);
      if (node.op() == "TemporaryVariable") return true;
      // A variable of that name in that container, also when another graph has it.
      auto& shared_name = (*lowered->mutable_attr())["shared_name"];
      if (shared_name.s().empty()) shared_name.set_s(node.name());
      // In the first version of TensorFlow no dimensions meant that the shape is not known.
      const auto shape = lowered->mutable_attr()->find("shape");
      if (node.op() == "Variable" && shape != lowered->mutable_attr()->end() &&
          shape->second.shape().dim().empty()) {
        shape->second.mutable_shape()->set_unknown_rank(true);
      }
      if (any_shape_.contains(node.name())) {
        auto& any = *(*lowered->mutable_attr())["shape"].mutable_shape();
        any.Clear();
        any.set_unknown_rank(true);
      }
      return true;
    }
    case Role::kUpdate:
    case Role::kQuery:
    case Role::kFlow:
    case Role::kPass:
      return op != nullptr && LowerInputs(node, *op, lowered);
    case Role::kHandle:
      if (op != nullptr) LowerHandle(node, *op, lowered);
      return op != nullptr;
    case Role::kNone:
      break;
  }
  if (IsIdentity(node) && LowerIdentity(node, lowered)) return true;
  return ReadInputs(node, lowered);
}

// Hands handles to the inputs of `op` that take them, and values to the others.
bool ReferenceLowering::LowerInputs(const NodeDef& node, const Op& op, NodeDef* lowered) {
  const Role role = RoleOf(graph_.ops(), node);
  const auto takes_handle = [&](int input) { return TakesHandle(role, node, op, input); };
  for (int i = 0; i < node.input_size(); ++i) {
    if (!IsControl(node.input(i)) && takes_handle(i) && !Resolve(node.input(i))) return false;
  }
  Begin(node, op, lowered);
  if (role == Role::kFlow) (*lowered->mutable_attr())["T"].set_type(tensorflow::DT_RESOURCE);
  // Its default is another than that of AssignVariableOp.
  if (node.op() == "Assign" && !node.attr().contains("validate_shape")) {
    (*lowered->mutable_attr())["validate_shape"].set_b(true);
  }
  const auto reads = AddReads(node, takes_handle);
  std::vector<std::string> before = ControlInputs(node);
  for (int i = 0; i < node.input_size(); ++i) {
    if (IsControl(node.input(i))) continue;
    if (takes_handle(i)) {
      const std::optional<Reference> reference = Resolve(node.input(i));
      if (role != Role::kPass) lowered->add_input(reference->handle);
      before.push_back(reference->after);
    } else {
      const auto read = reads.find(i);
      lowered->add_input(read == reads.end() ? node.input(i) : read->second);
    }
  }
  AddControls(before, lowered);
  return true;
}

bool ReferenceLowering::LowerIdentity(const NodeDef& node, NodeDef* lowered) {
  const Op* const op = graph_.ops().Find("ReadVariableOp");
  if (op == nullptr || node.input_size() == 0) return false;
  const std::optional<Reference> reference = Resolve(node.input(0));
  // Without a device it is placed beside the variable.
  if (!reference || !MayBeTogether(reference->device, node.device())) return false;
  Begin(node, *op, lowered);
  (*lowered->mutable_attr())[kReadsReferenceAttr].set_b(true);
  (*lowered->mutable_attr())["dtype"].set_type(static_cast<DataType>(reference->dtype));
  lowered->add_input(reference->handle);
  std::vector<std::string> before = ControlInputs(node);
  before.push_back(reference->after);
  AddControls(before, lowered);
  return true;
}

void ReferenceLowering::LowerHandle(const NodeDef& node, const Op& op, NodeDef* lowered) {
  if (!ReadInputs(node, lowered)) *lowered = node;
  lowered->set_op(op.name());
  if (op.name() != "StackV2") return;
  NodeDef* const any_number = lowered_->add_node();
  any_number->set_name(absl::StrCat(node.name(), "/max_size"));
  any_number->set_op("Const");
  any_number->set_device(node.device());
  (*any_number->mutable_attr())["dtype"].set_type(tensorflow::DT_INT32);
  tensorflow::TensorProto& value = *(*any_number->mutable_attr())["value"].mutable_tensor();
  value.set_dtype(tensorflow::DT_INT32);
  value.mutable_tensor_shape();
  value.add_int_val(-1);
  // Where the stack is: in its loop, and only if its branch runs.
  AddControls(ControlInputs(node), any_number);
  lowered->clear_input();
  lowered->add_input(any_number->name());
  AddControls(ControlInputs(node), lowered);
}

// False when there is nothing to read.
bool ReferenceLowering::ReadInputs(const NodeDef& node, NodeDef* lowered) {
  const auto reads = AddReads(node, [](int) { return false; });
  if (reads.empty()) return false;
  *lowered = node;
  for (const auto& [input, read] : reads) lowered->set_input(input, read);
  return true;
}

absl::flat_hash_map<int, std::string> ReferenceLowering::AddReads(const NodeDef& reader,
                                                                  absl::FunctionRef<bool(int)> takes_handle) {
  absl::flat_hash_map<int, std::string> reads;
  std::vector<std::pair<int, Reference>> here, elsewhere;
  for (int i = 0; i < reader.input_size(); ++i) {
    if (IsControl(reader.input(i)) || takes_handle(i)) continue;
    if (std::optional<Reference> reference = ReadAtUse(reader, reader.input(i))) {
      const bool is_local = MayBeTogether(reference->device, reader.device());
      (is_local ? here : elsewhere).emplace_back(i, *std::move(reference));
    }
  }
  if (here.empty() && elsewhere.empty()) return reads;
  std::vector<std::string> after = ControlInputs(reader);
  AddReadsAfter(reader, elsewhere, after, "/ref_order_elsewhere", &reads);
  if (here.empty()) return reads;
  for (std::string& producer : ProducersBefore(reader)) after.push_back(std::move(producer));
  AddReadsAfter(reader, here, std::move(after), "/ref_order", &reads);
  return reads;
}

void ReferenceLowering::AddReadsAfter(const NodeDef& reader,
                                      const std::vector<std::pair<int, Reference>>& references,
                                      std::vector<std::string> after, absl::string_view order,
                                      absl::flat_hash_map<int, std::string>* reads) {
  // Without it there would be as many edges as references times nodes.
  if (references.size() > 1 && after.size() > 1) {
    NodeDef* const between = lowered_->add_node();
    between->set_name(absl::StrCat(reader.name(), order));
    between->set_op("NoOp");
    between->set_device(reader.device());
    AddControls(after, between);
    after = {between->name()};
  }
  for (const auto& [input, reference] : references) {
    std::string read = absl::StrCat(reader.name(), "/ref_read_", input);
    AddRead(read, reference, after);
    if (reference.is_shaped) read = AddShaped(reader, input, read, reference);
    reads->emplace(input, std::move(read));
  }
}

std::optional<ReferenceLowering::Reference> ReferenceLowering::ReadAtUse(const NodeDef& reader,
                                                                         const std::string& input) {
  if (std::optional<Reference> reference = Resolve(input)) return reference;
  if (IsMerge(reader) || (!RunsAfterUpdate(reader.name()) && !has_references_in_loops_)) return std::nullopt;
  std::optional<Reference> buffer = Resolve(input, Way::kBuffers);
  // An iteration may run after all of the one before.
  if (buffer && !RunsAfterUpdate(reader.name()) && !handles_in_loops_.contains(buffer->handle)) {
    return std::nullopt;
  }
  if (!buffer || !MayBeTogether(buffer->device, reader.device())) return std::nullopt;
  if (buffer->is_shaped && !CanBeShaped(*buffer)) return std::nullopt;
  return buffer;
}

std::vector<std::string> ReferenceLowering::ProducersBefore(const NodeDef& reader) {
  std::vector<std::string> producers;
  if (IsMerge(reader)) return producers;
  for (int i = 0; i < reader.input_size(); ++i) {
    const absl::StatusOr<InputName> name = ParseInputName(reader.input(i));
    if (!name.ok() || name->is_control) continue;
    if (const int dtype = TypeOfSwitch(reader.input(i)); dtype != 0) {
      producers.push_back(AddGate(reader, i, dtype));
    } else if (RunsAfterUpdate(name->node) || after_switches_.contains(name->node)) {
      producers.emplace_back(name->node);
    }
  }
  return producers;
}

int ReferenceLowering::TypeOfSwitch(const std::string& input) const {
  const absl::StatusOr<InputName> name = ParseInputName(input);
  if (!name.ok() || name->is_control) return 0;
  if (const NodeDef* const producer = Find(name->node)) {
    const bool is_ref = producer->op() == "RefSwitch" && RoleOf(graph_.ops(), *producer) == Role::kFlow;
    if (!is_ref && producer->op() != "Switch") return 0;
    const DType passed = passed_handles_.TypeOf(producer->name());
    if (passed != DType::kInvalid) return static_cast<int>(passed);
    return is_ref ? static_cast<int>(tensorflow::DT_RESOURCE) : TypeAttr(*producer, "T");
  }
  const Node* const producer = graph_.FindNode(name->node);
  if (producer == nullptr || producer->op().name() != "Switch" || name->output >= producer->num_outputs()) {
    return 0;
  }
  return static_cast<int>(producer->output_type(name->output));
}

// A control input tells only that a Switch has run, not which of its outputs is alive.
std::string ReferenceLowering::AddGate(const NodeDef& reader, int input, int dtype) {
  std::string name = absl::StrCat(reader.name(), "/ref_gate_", input);
  if (!gates_.insert(name).second) return name;
  NodeDef* const gate = lowered_->add_node();
  gate->set_name(name);
  gate->set_op("Identity");
  gate->set_device(reader.device());
  (*gate->mutable_attr())["T"].set_type(static_cast<DataType>(dtype));
  gate->add_input(reader.input(input));
  return name;
}

bool ReferenceLowering::CanBeShaped(const Reference& reference) const {
  const auto in_loop = handles_in_loops_.find(reference.handle);
  const std::string& variable =
      in_loop == handles_in_loops_.end() ? reference.handle : in_loop->second.variable;
  // With another number of elements it has another buffer.
  const Node* const imported = graph_.FindNode(variable);
  const AttrValue* const shape = imported == nullptr ? nullptr : imported->FindAttr("shape");
  const bool has_any_shape =
      any_shape_.contains(variable) || (shape != nullptr && *shape == AttrValue(PartialShape()));
  return !has_any_shape && graph_.ops().Find("Reshape") != nullptr && graph_.ops().Find("Shape") != nullptr;
}

// What `reader` reads, in the shape that its input has.
std::string ReferenceLowering::AddShaped(const NodeDef& reader, int input, const std::string& read,
                                         const Reference& reference) {
  const auto add = [&](const char* op, const char* suffix) {
    NodeDef* const node = lowered_->add_node();
    node->set_name(absl::StrCat(reader.name(), suffix, input));
    node->set_op(op);
    node->set_device(reader.device());
    (*node->mutable_attr())["T"].set_type(static_cast<DataType>(reference.dtype));
    return node;
  };
  NodeDef* const shape = add("Shape", "/ref_shape_");
  (*shape->mutable_attr())["out_type"].set_type(tensorflow::DT_INT32);
  shape->add_input(reader.input(input));
  NodeDef* const shaped = add("Reshape", "/ref_shaped_");
  (*shaped->mutable_attr())["Tshape"].set_type(tensorflow::DT_INT32);
  shaped->add_input(read);
  shaped->add_input(shape->name());
  return shaped->name();
}

void ReferenceLowering::AddRead(const std::string& name, const Reference& reference,
                                const std::vector<std::string>& after) {
  AddHandleInLoop(reference.handle);
  NodeDef* const read = lowered_->add_node();
  read->set_name(name);
  read->set_op("ReadVariableOp");
  read->set_device(reference.device);
  (*read->mutable_attr())["dtype"].set_type(static_cast<DataType>(reference.dtype));
  (*read->mutable_attr())[kReadsReferenceAttr].set_b(true);
  read->add_input(reference.handle);
  std::vector<std::string> before = {reference.after};
  before.insert(before.end(), after.begin(), after.end());
  AddControls(before, read);
}

void ReferenceLowering::AddStandInsOf(const NodeDef& node) {
  const Role role = RoleOf(graph_.ops(), node);
  for (int output = 0; IsReference(role, node.op(), output); ++output) {
    const std::optional<Reference> reference = Resolve(InputNameOf(node.name(), output));
    if (!reference) continue;
    std::string read = absl::StrCat(node.name(), "/ref_value", output == 0 ? "" : absl::StrCat("_", output));
    AddRead(read, *reference, {});
    stand_ins_.push_back({node.name(), output, std::move(read)});
  }
}

void ReferenceLowering::AddStandIns(Graph* graph) const {
  for (const StandIn& stand_in : stand_ins_) {
    Node* const node = graph->FindNode(stand_in.node);
    Node* const read = graph->FindNode(stand_in.read);
    // A node that was left out of the import has none.
    if (node != nullptr && read != nullptr) graph->SetStandIn({node, stand_in.output}, read->output(0));
  }
}

}  // namespace weir
