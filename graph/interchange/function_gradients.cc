// SymbolicGradient as the nodes of a function and of its gradient: part of function_expansion.h.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/interchange/function_call_ops.h"
#include "graph/interchange/function_expansion.h"
#include "graph/interchange/input_name.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {

using ::tensorflow::NodeDef;

namespace {

// The nodes of a graph that stands for a function.
struct Bounds {
  std::vector<Output> arguments;
  std::vector<Output> results;
};

// InvalidArgument unless the graph has each argument and each result once.
absl::StatusOr<Bounds> BoundsOf(const Graph& graph, size_t num_arguments, size_t num_results) {
  Bounds bounds;
  bounds.arguments.resize(num_arguments);
  bounds.results.resize(num_results);
  size_t num_found = 0;
  for (const auto& node : graph.nodes()) {
    const bool is_argument = node->op_name() == kArgOp;
    if (!is_argument && node->op_name() != kRetvalOp) continue;
    std::vector<Output>& places = is_argument ? bounds.arguments : bounds.results;
    const int64_t index = node->attr<int64_t>("index");
    if (index < 0 || static_cast<uint64_t>(index) >= places.size() || places[index]) {
      return absl::InvalidArgumentError(
          absl::StrCat(node->Describe(), " of a function has an index that is wrong or is there twice"));
    }
    places[index] = is_argument ? node->output(0) : node->input(0);
    ++num_found;
  }
  if (num_found == num_arguments + num_results) return bounds;
  return absl::InvalidArgumentError("a function lacks one of its arguments or results");
}

// The call that was kept, or its gradient, as the op that stands for it in functions.
absl::Status MakeCall(NodeDef* node) {
  if (!IsFunctionCallOp(node->op())) return absl::OkStatus();
  const bool is_call = node->op() == kFunctionCallOp;
  const std::string bytes = node->attr().at(kFunctionAttr).s();
  node->mutable_attr()->erase(kFunctionAttr);
  node->set_op(is_call ? "PartitionedCall" : "SymbolicGradient");
  if (!(*node->mutable_attr())["f"].mutable_func()->ParseFromString(bytes)) {
    return absl::InternalError("the function of a call does not parse");
  }
  return absl::OkStatus();
}

// Gradients flow through these (graph/gradients.h).
bool CarriesGradient(DType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

// As a body names its inputs, where those are nodes of arguments.
class BodyNames {
 public:
  void AddArgument(const Output& argument) {
    const int number = static_cast<int>(numbers_.size());
    numbers_.emplace(argument.node->name(), number);
  }
  std::string Of(const std::string& input) const {
    absl::string_view name = input;
    const bool is_control = absl::ConsumePrefix(&name, "^");
    const auto argument = numbers_.find(name);
    if (argument == numbers_.end()) return input;
    return absl::StrCat(is_control ? "^" : "", "#", argument->second);
  }

 private:
  absl::flat_hash_map<std::string, int> numbers_;
};

}  // namespace

absl::Status FunctionExpansion::ExpandGradient(const NodeDef& call) {
  const AttrProto* const function = FindAttr(call, "f");
  if (function == nullptr || !function->has_func()) return WrongAttr(call, "f", "a function");
  const std::string& name = function->func().name();
  const std::string own = library_.GradientOf(name);
  if (!own.empty()) {
    if (IsKept(own)) return KeepCall(call, own, function->func().attr());
    WEIR_ASSIGN_OR_RETURN(const auto gradient, Body(call, own, function->func().attr()));
    const AttrProto* const wanted = FindAttr(call, "Tout");
    const size_t num_wanted = wanted == nullptr ? gradient->results.size() : wanted->list().type_size();
    if (gradient->results.size() != num_wanted) {
      return absl::InvalidArgumentError(absl::StrCat("SymGrad expects to return ", num_wanted,
                                                     " gradients, but get ", gradient->results.size(),
                                                     " from '", own, "' instead"));
    }
    return ExpandCall(call, own, *gradient);
  }
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const FunctionBody> body, Body(call, function, "f"));
  WEIR_ASSIGN_OR_RETURN(const FunctionBody gradient, GradientBody(*body, name));
  return ExpandCall(call, absl::StrCat("the gradient of ", name), gradient);
}

absl::Status FunctionExpansion::KeepCall(const NodeDef& call, absl::string_view function,
                                         const AttrProtos& attrs) {
  const std::string other = has_own_gradient_;  // this one's is not lost
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const FunctionBody> body, Body(call, function, attrs));
  has_own_gradient_ = other;
  WEIR_RETURN_IF_ERROR(CheckArguments(call, *body, InputsOf(call).data.size()));
  WEIR_RETURN_IF_ERROR(CheckResults(call, *body, "Tout"));
  NodeDef kept;
  kept.set_name(call.name());
  kept.set_op(kFunctionCallOp);
  kept.set_device(call.device());
  *kept.mutable_input() = call.input();
  auto* const takes = (*kept.mutable_attr())["Tin"].mutable_list();
  for (const FunctionBody::Argument& argument : body->arguments) takes->add_type(argument.type);
  auto* const gives = (*kept.mutable_attr())["Tout"].mutable_list();
  for (const tensorflow::DataType type : body->result_types) gives->add_type(type);
  tensorflow::NameAttrList called;
  called.set_name(std::string(function));
  *called.mutable_attr() = attrs;
  (*kept.mutable_attr())[kFunctionAttr].set_s(called.SerializeAsString());
  return AddPlain(std::move(kept));
}

absl::StatusOr<FunctionBody> FunctionExpansion::GradientBody(const FunctionBody& body,
                                                             const std::string& function) {
  const std::string other = std::exchange(has_own_gradient_, "");
  WEIR_ASSIGN_OR_RETURN(const std::string bytes, GraphOfBody(body, function, OwnGradients::kKeep));
  const std::string with_own = std::exchange(has_own_gradient_, other);
  if (!with_own.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "function '", function, "' has '", with_own,
        "' as a branch or in a loop, whose gradient is a function of the library: the gradients of "
        "branches and loops are those of their nodes"));
  }
  tensorflow::GraphDef def;
  if (!def.ParseFromString(bytes)) return absl::InternalError("the body of a function does not parse");
  const bool has_calls = std::any_of(def.node().begin(), def.node().end(),
                                     [](const NodeDef& node) { return IsFunctionCallOp(node.op()); });
  std::unique_ptr<OpRegistry> with_calls;
  if (has_calls) {
    WEIR_ASSIGN_OR_RETURN(with_calls, WithFunctionCallOps(graph_.ops()));
  }
  GraphBuilder builder(has_calls ? *with_calls : graph_.ops());
  ImportOptions options;
  options.max_call_nodes = options.max_call_bytes = 0;  // none is left
  options.lets_runtime_ops_in = true;
  options.admit_tensors = options_.admit_tensors;
  WEIR_RETURN_IF_ERROR(ImportGraphDef(def, options, &builder.graph()));
  WEIR_ASSIGN_OR_RETURN(const Bounds bounds,
                        BoundsOf(builder.graph(), body.arguments.size(), body.results.size()));

  BodyNames names;
  for (const Output& argument : bounds.arguments) names.AddArgument(argument);
  std::vector<Output> xs, ys, flows;
  for (const Output& argument : bounds.arguments) {
    if (CarriesGradient(argument.dtype())) xs.push_back(argument);
  }
  for (size_t i = 0; i < bounds.results.size(); ++i) {
    const Output& result = bounds.results[i];
    const Output flow = builder.AddOp(
        kArgOp, {}, {{"index", static_cast<int64_t>(bounds.arguments.size() + i)}, {"T", result.dtype()}},
        absl::StrCat("_flow_", i));
    if (!builder.ok()) return builder.status();
    names.AddArgument(flow);
    if (!CarriesGradient(result.dtype())) continue;
    ys.push_back(result);
    flows.push_back(flow);
  }
  std::vector<Output> found(xs.size());
  if (!xs.empty() && !ys.empty()) {
    WEIR_ASSIGN_OR_RETURN(found, AddGradients(builder, ys, xs, flows));
  }
  std::vector<Output> gradients;
  size_t next = 0;
  for (const Output& argument : bounds.arguments) {
    Output gradient = CarriesGradient(argument.dtype()) ? found[next++] : Output();
    if (!gradient) gradient = builder.AddOp("ZerosLike", {argument});
    gradients.push_back(gradient);
  }
  if (!builder.ok()) return builder.status();

  FunctionBody made;
  made.arguments = body.arguments;
  for (const tensorflow::DataType type : body.result_types) made.arguments.push_back({"", type});
  for (const auto& node : builder.graph().nodes()) {
    if (node->op_name() == kArgOp || node->op_name() == kRetvalOp) continue;
    NodeDef& copy = made.nodes.emplace_back();
    WEIR_RETURN_IF_ERROR(ExportNodeDef(*node, {}, &copy));
    WEIR_RETURN_IF_ERROR(MakeCall(&copy));
    for (std::string& input : *copy.mutable_input()) input = names.Of(input);
    made.num_bytes += static_cast<int64_t>(copy.ByteSizeLong());
  }
  for (const Output& gradient : gradients) {
    made.results.push_back(names.Of(InputNameOf(gradient.node->name(), gradient.index)));
  }
  for (const FunctionBody::Argument& argument : body.arguments) made.result_types.push_back(argument.type);
  return made;
}

}  // namespace weir
