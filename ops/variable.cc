#include "ops/variable.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

constexpr char kGlobalStep[] = "global_step";
constexpr char kLocalVariables[] = "local_variables";

// Makes the initial value in the current scopes.
using MakeInitialValue = std::function<Output()>;

// The part of a node's name below the current name scope, to name nodes beside it.
std::string LocalName(const GraphBuilder& g, const Node& node) {
  absl::string_view name = node.name();
  if (!g.name_scope().empty()) absl::ConsumePrefix(&name, absl::StrCat(g.name_scope(), "/"));
  return std::string(name);
}

// What a node of this name is called if the name is free.
std::string FullName(const GraphBuilder& g, absl::string_view name) {
  return g.name_scope().empty() ? std::string(name) : absl::StrCat(g.name_scope(), "/", name);
}

Output AddHandle(GraphBuilder& g, absl::string_view name, DType dtype, const Shape& shape,
                 SourceLocation where) {
  const Output handle = VarHandleOp(g, dtype, shape, {.name = name}, where);
  if (handle) g.graph().SetAttr(handle.node, "shared_name", handle.node->name());
  return handle;
}

Output AddInitialValue(GraphBuilder& g, const std::string& local_name, const MakeInitialValue& make) {
  const auto scope = g.NameScope(absl::StrCat(local_name, "/Initializer"));
  return make();
}

VariableDef Describe(const ModelVariable& variable) {
  return {.variable_name = variable.name,
          .handle_name = variable.handle.name(),
          .initializer_name = variable.initializer->name(),
          .snapshot_name = variable.value.name(),
          .initial_value_name = variable.initial_value.name(),
          .trainable = variable.trainable,
          .slice = variable.slice};
}

ModelVariable Make(GraphBuilder& g, absl::string_view name, DType dtype, const Shape& shape,
                   const VariableOptions& options, const MakeInitialValue& make_initial_value,
                   SourceLocation where) {
  const auto no_control = g.ClearControlScope();  // a variable belongs to no step
  const Output handle = AddHandle(g, name, dtype, shape, where);
  if (!handle) return {};
  const std::string local_name = LocalName(g, *handle.node);
  const auto beside_handle = g.ColocationScope(handle.node);
  ModelVariable variable = {.name = handle.node->name(), .dtype = dtype, .shape = shape, .handle = handle};
  variable.trainable = options.trainable;
  variable.slice = options.slice;
  variable.initial_value = AddInitialValue(g, local_name, make_initial_value);
  if (!CheckGiven(g, absl::StrCat("variable '", variable.name, "'"), "what its initializer gave",
                  variable.initial_value, where)) {
    return {};
  }
  variable.initializer = AssignVariableOp(g, handle, variable.initial_value,
                                          {.name = absl::StrCat(local_name, "/Assign")}, where);
  variable.value =
      ReadVariableOp(g, handle, dtype, {.name = absl::StrCat(local_name, "/Read/ReadVariableOp")}, where);
  if (!g.ok()) return {};
  if (options.is_local) {
    g.graph().collections()[kLocalVariables].push_back(handle.name());
  } else {
    g.graph().variables().push_back(Describe(variable));
  }
  return variable;
}

// The variable that a VariableDef describes; nullopt when its nodes are not in the graph (any more).
std::optional<ModelVariable> Find(Graph& graph, const VariableDef& def) {
  const auto handle = graph.FindOutput(def.handle_name);
  const auto value = graph.FindOutput(def.snapshot_name);
  const auto initial_value = graph.FindOutput(def.initial_value_name);
  Node* const initializer = graph.FindNode(def.initializer_name);
  if (!handle.ok() || !value.ok() || initializer == nullptr) return std::nullopt;
  const auto& type = handle->node->resource_type(handle->index);
  if (!type || !type->shape.is_fully_known()) return std::nullopt;
  return ModelVariable{.name = def.variable_name,
                       .dtype = type->dtype,
                       .shape = type->shape.ToShape(),
                       .handle = *handle,
                       .value = *value,
                       .initializer = initializer,
                       .initial_value = initial_value.ok() ? *initial_value : Output(),
                       .trainable = def.trainable,
                       .slice = def.slice};
}

Output InitialValue(GraphBuilder& g, DType dtype, const Shape& shape, const Initializer& initializer,
                    const VariableOptions& options) {
  if (!options.slice) return initializer(g, dtype, shape);
  return initializer.OfPart(g, dtype, shape, {options.slice->full_shape, options.slice->offset});
}

}  // namespace

ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, DType dtype, const Shape& shape,
                           const Initializer& initializer, const VariableOptions& options,
                           SourceLocation where) {
  if (g.ok() && !initializer) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("variable '", FullName(g, name), "': its initializer is null")),
               where);
    return {};
  }
  return Make(
      g, name, dtype, shape, options, [&] { return InitialValue(g, dtype, shape, initializer, options); },
      where);
}

ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, Tensor initial_value,
                           const VariableOptions& options, SourceLocation where) {
  const DType dtype = initial_value.dtype();
  const Shape shape = initial_value.shape();
  const auto make = [&] { return Const(g, std::move(initial_value), {.name = "initial_value"}, where); };
  return Make(g, name, dtype, shape, options, make, where);
}

ModelVariable MakeVariable(GraphBuilder& g, absl::string_view name, Output initial_value,
                           const VariableOptions& options, SourceLocation where) {
  if (!g.ok() || !CheckGiven(g, absl::StrCat("variable '", FullName(g, name), "'"), "its initial value",
                             initial_value, where)) {
    return {};
  }
  if (!initial_value.shape().is_fully_known()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "variable '", name, "': the shape of its initial value '", initial_value.name(),
                   "' must be known, is ", initial_value.shape().ToString())),
               where);
    return {};
  }
  const Shape shape = initial_value.shape().ToShape();
  return Make(
      g, name, initial_value.dtype(), shape, options, [&] { return initial_value; }, where);
}

ModelVariable MakeVariableBeside(GraphBuilder& g, const ModelVariable& primary, absl::string_view name,
                                 const Initializer& initializer, SourceLocation where) {
  if (!g.ok() || !CheckGiven(g, absl::StrCat("variable '", primary.name, "/", name, "'"),
                             "the variable beside which it is to be", primary.handle, where)) {
    return {};
  }
  const auto root = g.NameScope("");
  const auto beside_primary = g.ColocationScope(primary.handle.node);
  ModelVariable made = MakeVariable(g, absl::StrCat(primary.name, "/", name), primary.dtype, primary.shape,
                                    initializer, {.trainable = false, .slice = primary.slice}, where);
  if (!made.slice) return made;
  // The name that it got, below the full variable's: "w/Adam_1" of "w/part_0/Adam_1".
  made.slice->full_name += made.name.substr(primary.name.size());
  g.graph().variables().back().slice = made.slice;
  return made;
}

std::vector<ModelVariable> AllVariables(GraphBuilder& g) {
  std::vector<ModelVariable> variables;
  for (const VariableDef& def : g.graph().variables()) {
    if (auto variable = Find(g.graph(), def)) variables.push_back(*std::move(variable));
  }
  return variables;
}

std::vector<ModelVariable> TrainableVariables(GraphBuilder& g) {
  std::vector<ModelVariable> variables = AllVariables(g);
  const auto is_fixed = [](const ModelVariable& variable) { return !variable.trainable; };
  variables.erase(std::remove_if(variables.begin(), variables.end(), is_fixed), variables.end());
  return variables;
}

ModelVariable GlobalStep(GraphBuilder& g, SourceLocation where) {
  std::vector<std::string>& collection = g.graph().collections()[kGlobalStep];
  if (collection.size() > 1) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("the collection '", kGlobalStep, "' names ", collection.size(),
                                " variables, '", absl::StrJoin(collection, "', '"), "': it must name one")),
               where);
    return {};
  }
  for (ModelVariable& variable : AllVariables(g)) {
    if (!collection.empty() && variable.name == collection.front()) return std::move(variable);
  }
  const auto root = g.NameScope("");
  ModelVariable step = MakeVariable(g, kGlobalStep, Tensor::Scalar<int64_t>(0), {.trainable = false}, where);
  if (step.handle) collection = {step.name};
  return step;
}

Node* InitializeVariables(GraphBuilder& g, SourceLocation where) {
  std::vector<Node*> initializers;
  for (const ModelVariable& variable : AllVariables(g)) initializers.push_back(variable.initializer);
  return Group(g, initializers, {.name = "init"}, where);
}

Node* InitializeLocalVariables(GraphBuilder& g, SourceLocation where) {
  if (!g.ok()) return nullptr;
  std::vector<Node*> initializers;
  for (const std::string& handle : g.graph().collections()[kLocalVariables]) {
    const auto node = absl::StrCat(absl::StripSuffix(handle, ":0"), "/Assign");
    // A graph of TensorFlow's may have another name for it, and has its own local_init_op.
    if (Node* const initializer = g.graph().FindNode(node)) initializers.push_back(initializer);
  }
  return Group(g, initializers, {.name = "init_local"}, where);
}

UninitializedReport ReportUninitialized(GraphBuilder& g, SourceLocation where) {
  UninitializedReport report;
  const auto scope = g.NameScope("report_uninitialized_variables");
  std::vector<Output> is_initialized;
  for (const ModelVariable& variable : AllVariables(g)) {
    const auto beside_handle = g.ColocationScope(variable.handle.node);
    report.names.push_back(variable.name);
    is_initialized.push_back(VarIsInitializedOp(g, variable.handle, {}, where));
  }
  if (is_initialized.empty()) {
    report.is_uninitialized = Const(g, Tensor(DType::kBool, Shape({0})), {}, where);
  } else {
    report.is_uninitialized = LogicalNot(g, Pack(g, is_initialized, {}, where), {}, where);
  }
  return report;
}

}  // namespace weir
