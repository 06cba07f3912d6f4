// Functions that kernels call: their bodies become attrs of the nodes.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/function_bodies.h"
#include "graph/interchange/function_calls.h"
#include "graph/interchange/function_expansion.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

namespace {

std::string ArgumentName(int index) { return absl::StrCat("_argument_", index); }

NodeDef RuntimeNode(absl::string_view op, std::string name, int index, tensorflow::DataType type) {
  NodeDef node;
  node.set_op(std::string(op));
  node.set_name(std::move(name));
  (*node.mutable_attr())["index"].set_i(index);
  (*node.mutable_attr())["T"].set_type(type);
  return node;
}

// "#3" is the node of the argument.
std::string InputOf(absl::string_view input) {
  const bool is_control = absl::ConsumePrefix(&input, "^");
  const int argument = ArgumentNumber(input);
  return absl::StrCat(is_control ? "^" : "", argument < 0 ? std::string(input) : ArgumentName(argument));
}

// The node that an input is of.
absl::string_view ProducerOf(absl::string_view input) {
  absl::ConsumePrefix(&input, "^");
  return input.substr(0, input.find(':'));
}

// What the results and the effects of the body need.
absl::flat_hash_set<absl::string_view> NeededNodes(const FunctionBody& body) {
  absl::flat_hash_map<absl::string_view, const NodeDef*> nodes;
  for (const NodeDef& node : body.nodes) nodes.emplace(node.name(), &node);
  std::vector<absl::string_view> reached;
  absl::flat_hash_set<absl::string_view> needed;
  const auto reach = [&](absl::string_view name) {
    if (nodes.contains(name) && needed.insert(name).second) reached.push_back(name);
  };
  for (const std::string& result : body.results) reach(ProducerOf(result));
  for (const std::string& effect : body.effects) reach(effect);
  for (const std::string& effect : body.stateful) reach(effect);
  while (!reached.empty()) {
    const NodeDef& node = *nodes.at(reached.back());
    reached.pop_back();
    for (const std::string& input : node.input()) reach(ProducerOf(input));
  }
  return needed;
}

}  // namespace

absl::Status FunctionExpansion::AttachBodies(NodeDef* node) {
  std::map<std::string, std::string> bodies;  // by attr, in one order for all runs
  for (auto& [name, attr] : *node->mutable_attr()) {
    if (attr.has_func() && library_.Find(attr.func().name()) != nullptr) bodies[name];
  }
  for (auto& [name, bytes] : bodies) {
    tensorflow::NameAttrList& function = *node->mutable_attr()->at(name).mutable_func();
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const FunctionBody> body,
                          Body(*node, function.name(), function.attr()));
    WEIR_ASSIGN_OR_RETURN(bytes, GraphOfBody(*body, function.name()));
    function.clear_attr();  // the body has them
    (*node->mutable_attr())[BodyAttr(name)].set_s(std::move(bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FunctionExpansion::GraphOfBody(const FunctionBody& body,
                                                           const std::string& function,
                                                           OwnGradients own_gradients) {
  GraphDef def;
  *def.mutable_versions() = def_.versions();
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    const int index = static_cast<int>(i);
    *def.add_node() = RuntimeNode(kArgOp, ArgumentName(index), index, body.arguments[i].type);
  }
  const absl::flat_hash_set<absl::string_view> needed = NeededNodes(body);
  for (const NodeDef& node : body.nodes) {
    if (!needed.contains(node.name())) continue;
    NodeDef& copy = *def.add_node();
    copy = node;
    for (std::string& input : *copy.mutable_input()) input = InputOf(input);
  }
  for (size_t i = 0; i < body.results.size(); ++i) {
    const int index = static_cast<int>(i);
    NodeDef& result = *def.add_node();
    result = RuntimeNode(kRetvalOp, absl::StrCat("_result_", i), index, body.result_types[i]);
    result.add_input(InputOf(body.results[i]));
  }

  ImportOptions options = options_;
  options.max_call_nodes -= num_nodes_;
  options.max_call_bytes -= num_bytes_;
  const Graph nothing(graph_.ops());
  FunctionExpansion inner(def, nothing, library_, options);
  inner.calling_ = calling_;
  inner.calling_.push_back(function);
  inner.outer_calls_ = inner.calling_.size();
  inner.own_gradients_ = own_gradients;
  absl::StatusOr<GraphDef> expanded = inner.Expanded();
  num_nodes_ += inner.num_nodes_ + def.node_size();
  num_bytes_ += inner.num_bytes_;
  if (!inner.has_own_gradient_.empty()) has_own_gradient_ = inner.has_own_gradient_;
  if (!expanded.ok()) return refusal_ = expanded.status();
  // What was admitted for the body's nodes stays admitted: they become a graph when the kernel is made.
  held_bytes_ += inner.admitted_bytes_;
  admitted_bytes_ += inner.admitted_bytes_;
  for (const NodeDef& node : def.node()) {
    const auto failure = inner.failures_.find(node.name());
    if (failure != inner.failures_.end()) return failure->second;
  }
  std::string bytes = expanded->SerializeAsString();
  num_bytes_ += static_cast<int64_t>(bytes.size());
  held_bytes_ += static_cast<int64_t>(bytes.size());
  if (num_nodes_ > options_.max_call_nodes || num_bytes_ > options_.max_call_bytes) {
    return TooMuch(absl::StrCat("with the body of function '", function, "'"));
  }
  WEIR_RETURN_IF_ERROR(Admit());
  return bytes;
}

}  // namespace weir
