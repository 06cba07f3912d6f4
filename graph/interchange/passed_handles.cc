#include "graph/interchange/passed_handles.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "graph/interchange/input_name.h"
#include "graph/interchange/old_handles.h"
#include "graph/interchange/proto/graph.pb.h"

namespace weir {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

// The op without "Ref", if it passes tensors of any type on; empty for any other op.
absl::string_view PassingOp(absl::string_view op) {
  absl::ConsumePrefix(&op, "Ref");
  for (const absl::string_view known : {"Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration"}) {
    if (op == known) return known;
  }
  return "";
}

// Whether a node with that op gives the value of that input.
bool PassesOn(absl::string_view op, int input) { return input == 0 || op == "Merge"; }

// The type of the handle that the node makes when it is imported; kInvalid when it makes none.
DType TypeOfMadeHandle(const OpRegistry& ops, const NodeDef& node) {
  // A registry that has the op uses it as it is.
  if (ops.Find(node.op()) != nullptr) return MakesStringHandle(node.op()) ? DType::kString : DType::kInvalid;
  const std::string successor = SuccessorOfOldHandle(node.op());
  const Op* const op = successor.empty() ? nullptr : ops.Find(successor);
  const bool makes_resource =
      op != nullptr && !op->outputs().empty() && op->outputs()[0].dtype == DType::kResource;
  return makes_resource ? DType::kResource : DType::kInvalid;
}

}  // namespace

PassedHandles::PassedHandles(const GraphDef& def, const Graph& graph) : graph_(graph) {
  for (const NodeDef& node : def.node()) {
    names_.insert(node.name());
    const DType made = TypeOfMadeHandle(graph.ops(), node);
    if (made != DType::kInvalid) sources_.emplace(node.name(), made);
  }
  Find(def);
}

DType PassedHandles::TypeOf(absl::string_view node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? DType::kInvalid : found->second;
}

DType PassedHandles::TypeOfHandle(const NodeDef& node, const std::string& input) const {
  const absl::StatusOr<InputName> name = ParseInputName(input);
  if (!name.ok() || name->is_control) return DType::kInvalid;
  if (names_.contains(name->node)) {
    if (name->output != 0 && (name->output != 1 || !forks_.contains(name->node))) return DType::kInvalid;
    const auto source = sources_.find(name->node);
    return source != sources_.end() ? source->second : TypeOf(name->node);
  }
  // Of what was imported before. A node that says itself that it passes a resource on is none of these.
  const auto type = node.attr().find("T");
  const bool is_string =
      type != node.attr().end() && type->second.type() % 100 == tensorflow::DT_STRING;  // or its reference
  Node* const producer = is_string ? graph_.FindNode(name->node) : nullptr;
  if (producer == nullptr || name->output >= producer->num_outputs()) return DType::kInvalid;
  // A variable's handle stands for a reference that can be read; an old handle is all that there is.
  if (graph_.StandIn({producer, name->output})) return DType::kInvalid;
  const DType given = producer->output_type(name->output);
  const bool is_handle =
      given == DType::kResource || (given == DType::kString && absl::StartsWith(node.op(), "Ref"));
  return is_handle ? given : DType::kInvalid;
}

void PassedHandles::Find(const GraphDef& def) {
  absl::flat_hash_map<absl::string_view, std::vector<const NodeDef*>> consumers;
  std::vector<const NodeDef*> open;
  for (const NodeDef& node : def.node()) {
    if (PassingOp(node.op()).empty()) continue;
    open.push_back(&node);
    for (const std::string& input : node.input()) {
      const absl::StatusOr<InputName> name = ParseInputName(input);
      if (name.ok() && names_.contains(name->node)) consumers[*names_.find(name->node)].push_back(&node);
    }
  }
  // Each is looked at once for each of its producers that turns out to be one, and once besides.
  while (!open.empty()) {
    const NodeDef& node = *open.back();
    open.pop_back();
    const absl::string_view op = PassingOp(node.op());
    if (nodes_.contains(node.name())) continue;
    DType passed = DType::kInvalid;
    for (int i = 0; i < node.input_size() && passed == DType::kInvalid; ++i) {
      if (PassesOn(op, i)) passed = TypeOfHandle(node, node.input(i));
    }
    if (passed == DType::kInvalid) continue;
    nodes_.emplace(node.name(), passed);
    if (op == "Switch") forks_.insert(node.name());
    const auto found = consumers.find(node.name());
    if (found != consumers.end()) open.insert(open.end(), found->second.begin(), found->second.end());
  }
}

bool PassedHandles::Lower(const NodeDef& node, NodeDef* lowered) const {
  const absl::string_view op = PassingOp(node.op());
  if (graph_.ops().Find(op) == nullptr) return false;
  *lowered = node;
  lowered->set_op(std::string(op));
  const bool is_string = TypeOf(node.name()) == DType::kString;
  (*lowered->mutable_attr())["T"].set_type(is_string ? tensorflow::DT_STRING : tensorflow::DT_RESOURCE);
  return true;
}

}  // namespace weir
