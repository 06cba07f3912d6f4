#include "ops/training/optimizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/gradients.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

absl::Status NoGradients(const std::vector<GradientAndVariable>& gradients) {
  const auto append_name = [](std::string* out, const GradientAndVariable& one) {
    absl::StrAppend(out, "'", one.variable.name, "'");
  };
  return absl::InvalidArgumentError(gradients.empty()
                                        ? "there are no trainable variables"
                                        : absl::StrCat("the loss depends on none of the variables ",
                                                       absl::StrJoin(gradients, ", ", append_name)));
}

absl::Status CheckShapes(const std::vector<GradientAndVariable>& gradients) {
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    if (gradient.dtype() == variable.dtype && gradient.shape().IsCompatibleWith(variable.shape)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the gradient does not fit: variable '", variable.name,
                                                   "' is ", TypeString(variable.dtype, variable.shape),
                                                   ", its gradient is ",
                                                   TypeString(gradient.dtype(), gradient.shape())));
  }
  return absl::OkStatus();
}

}  // namespace

Output Hyperparameter::In(GraphBuilder& g, DType dtype, absl::string_view name) const {
  if (const double* number = std::get_if<double>(&value_)) return ConstOf(g, dtype, *number, {.name = name});
  const Output output = std::get<Output>(value_);
  return output && output.dtype() != dtype ? Cast(g, output, dtype, {.name = name}) : output;
}

absl::StatusOr<Node*> Optimizer::Minimize(GraphBuilder& g, Output loss, const ModelVariable& global_step,
                                          SourceLocation where) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<GradientAndVariable> gradients,
                        ComputeGradients(g, loss, {}, where));
  return ApplyGradients(g, gradients, global_step, where);
}

absl::StatusOr<std::vector<GradientAndVariable>> Optimizer::ComputeGradients(
    GraphBuilder& g, Output loss, std::vector<ModelVariable> variables, SourceLocation where) {
  if (!g.ok()) return g.status();
  if (variables.empty()) variables = TrainableVariables(g);
  std::vector<Output> handles;
  for (const ModelVariable& variable : variables) handles.push_back(variable.handle);
  WEIR_ASSIGN_OR_RETURN(const std::vector<Output> gradients, AddGradients(g, {loss}, handles, {}, where));
  std::vector<GradientAndVariable> result;
  for (size_t i = 0; i < variables.size(); ++i) result.push_back({gradients[i], variables[i]});
  return result;
}

absl::StatusOr<Node*> Optimizer::ApplyGradients(GraphBuilder& g,
                                                const std::vector<GradientAndVariable>& gradients,
                                                const ModelVariable& global_step, SourceLocation where) {
  std::vector<ModelVariable> variables;
  for (const auto& [gradient, variable] : gradients) {
    if (gradient) variables.push_back(variable);
  }
  absl::Status status = variables.empty() ? NoGradients(gradients) : CheckShapes(gradients);
  if (!status.ok())
    g.SetError(absl::Status(status.code(), absl::StrCat(name_, ": ", status.message())), where);
  if (!g.ok()) return g.status();
  constants_.clear();
  Prepare(g, variables);
  std::vector<Node*> updates;
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    const auto beside_variable = g.ColocationScope(variable.handle.node);
    const auto scope = g.NameScope(absl::StrCat(name_, "/update_", variable.name));
    updates.push_back(Update(g, variable, gradient));
  }
  if (!g.ok()) return g.status();
  updates = Finish(g, std::move(updates));
  Node* const train =
      global_step.handle ? Count(g, global_step, updates, where) : Group(g, updates, {.name = name_}, where);
  if (!g.ok()) return g.status();
  g.graph().collections()["train_op"].push_back(train->name());
  return train;
}

// Updates and counter meet on the counter's device, so that nothing returns to the worker in between.
Node* Optimizer::Count(GraphBuilder& g, const ModelVariable& global_step, const std::vector<Node*>& updates,
                       SourceLocation where) {
  const auto beside_counter = g.ColocationScope(global_step.handle.node);
  Node* const updated = Group(g, updates, {.name = absl::StrCat(name_, "/update")}, where);
  const Output one = ConstOf(g, global_step.dtype, 1, {.name = absl::StrCat(name_, "/value")}, where);
  const auto after_updates = g.ControlScope({updated});
  return AssignAddVariableOp(g, global_step.handle, one, {.name = name_}, where);
}

ModelVariable Optimizer::MakeSlot(GraphBuilder& g, const ModelVariable& variable, absl::string_view name) {
  const auto root = g.NameScope("");
  const auto beside_variable = g.ColocationScope(variable.handle.node);
  return MakeVariable(g, absl::StrCat(variable.name, "/", name), variable.dtype, variable.shape,
                      initializers::Zeros(), {.trainable = false});
}

Output Optimizer::On(GraphBuilder& g, const ModelVariable& variable, const Hyperparameter& parameter,
                     absl::string_view name) {
  const ConstantKey key(variable.handle.node->requested_device().ToString(), variable.dtype,
                        std::string(name));
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  return constants_[key] = parameter.In(g, variable.dtype, name);
}

}  // namespace weir
