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

// Whether the node makes an old handle, and is imported as what makes a resource.
bool MakesHandle(const OpRegistry& ops, const NodeDef& node) {
  if (ops.Find(node.op()) != nullptr) return false;  // a registry that has the op uses it as it is
  const std::string successor = SuccessorOfOldHandle(node.op());
  const Op* const op = successor.empty() ? nullptr : ops.Find(successor);
  return op != nullptr && !op->outputs().empty() && op->outputs()[0].dtype == DType::kResource;
}

}  // namespace

PassedHandles::PassedHandles(const GraphDef& def, const Graph& graph) : graph_(graph) {
  for (const NodeDef& node : def.node()) {
    names_.insert(node.name());
    if (MakesHandle(graph.ops(), node)) sources_.insert(node.name());
  }
  Find(def);
}

bool PassedHandles::IsHandle(const NodeDef& node, const std::string& input) const {
  const absl::StatusOr<InputName> name = ParseInputName(input);
  if (!name.ok() || name->is_control) return false;
  if (names_.contains(name->node)) {
    const bool is_known = sources_.contains(name->node) || nodes_.contains(name->node);
    return is_known && (name->output == 0 || (name->output == 1 && forks_.contains(name->node)));
  }
  // Of what was imported before. A node that says itself that it passes a resource on is none of these.
  const auto type = node.attr().find("T");
  const bool is_string =
      type != node.attr().end() && type->second.type() % 100 == tensorflow::DT_STRING;  // or its reference
  const Node* const producer = is_string ? graph_.FindNode(name->node) : nullptr;
  return producer != nullptr && name->output < producer->num_outputs() &&
         producer->output_type(name->output) == DType::kResource;
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
    bool passes = false;
    for (int i = 0; i < node.input_size() && !passes; ++i) {
      passes = PassesOn(op, i) && IsHandle(node, node.input(i));
    }
    if (!passes) continue;
    nodes_.insert(node.name());
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
  (*lowered->mutable_attr())["T"].set_type(tensorflow::DT_RESOURCE);
  return true;
}

}  // namespace weir
