#include "ops/training/optimizer.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

// "'a', 'b'"
std::string NamesOf(const std::vector<ModelVariable>& variables) {
  return absl::StrJoin(variables, ", ", [](std::string* out, const ModelVariable& variable) {
    absl::StrAppend(out, "'", variable.name, "'");
  });
}

absl::Status NoGradients(const std::vector<GradientAndVariable>& gradients) {
  if (gradients.empty()) return absl::InvalidArgumentError("there are no gradients to apply");
  std::vector<ModelVariable> variables;
  for (const GradientAndVariable& one : gradients) variables.push_back(one.variable);
  return absl::InvalidArgumentError(
      absl::StrCat("the loss depends on none of the variables ", NamesOf(variables)));
}

absl::Status CheckChoice(const GraphBuilder& g, const std::vector<ModelVariable>& variables) {
  std::set<const Node*> seen;
  for (const ModelVariable& variable : variables) {
    const Node* const node = variable.handle.node;
    if (node == nullptr || g.graph().FindNode(node->name()) != node) {
      return absl::InvalidArgumentError(
          absl::StrCat("the variable '", variable.name, "' is not in this graph"));
    }
    if (!seen.insert(node).second) {
      return absl::InvalidArgumentError(absl::StrCat("the variable '", variable.name, "' is listed twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ModelVariable>> Choose(GraphBuilder& g, const GradientOptions& options) {
  std::vector<ModelVariable> candidates = options.variables ? *options.variables : TrainableVariables(g);
  if (candidates.empty()) {
    return absl::InvalidArgumentError(options.variables ? "the list of variables to train is empty"
                                                        : "there are no trainable variables");
  }
  WEIR_RETURN_IF_ERROR(CheckChoice(g, candidates));
  if (!options.only) return candidates;
  std::vector<ModelVariable> chosen;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(chosen), options.only);
  if (!chosen.empty()) return chosen;
  return absl::InvalidArgumentError(
      absl::StrCat("`only` is true for none of the variables ", NamesOf(candidates)));
}

bool HasShapeOf(const ModelVariable& variable, const Output& gradient) {
  return gradient.dtype() == variable.dtype && gradient.shape().IsCompatibleWith(variable.shape);
}

bool HasRowsOf(const ModelVariable& variable, const IndexedSlices& slices) {
  const PartialShape &values = slices.values.shape(), &indices = slices.indices.shape();
  if (slices.values.dtype() != variable.dtype || variable.shape.rank() == 0) return false;
  if (!indices.IsCompatibleWith(PartialShape::OfRank(1))) return false;
  if (!values.has_rank()) return true;
  if (values.rank() != variable.shape.rank()) return false;
  for (int i = 1; i < values.rank(); ++i) {
    if (values.dim(i) != PartialShape::kUnknownDim && values.dim(i) != variable.shape.dim(i)) return false;
  }
  return true;
}

absl::Status CheckShapes(const std::vector<GradientAndVariable>& gradients) {
  for (const auto& [gradient, variable] : gradients) {
    if (IsNull(gradient)) continue;
    const auto* const slices = std::get_if<IndexedSlices>(&gradient);
    if (slices != nullptr && (!slices->values || !slices->indices)) {
      return absl::InvalidArgumentError(absl::StrCat("the rows of the gradient of variable '", variable.name,
                                                     "' have no ", slices->values ? "indices" : "values"));
    }
    const bool fits =
        slices != nullptr ? HasRowsOf(variable, *slices) : HasShapeOf(variable, std::get<Output>(gradient));
    if (fits) continue;
    const Output& values = slices != nullptr ? slices->values : std::get<Output>(gradient);
    return absl::InvalidArgumentError(absl::StrCat("the gradient does not fit: variable '", variable.name,
                                                   "' is ", TypeString(variable.dtype, variable.shape),
                                                   ", its gradient is ", slices != nullptr ? "rows " : "",
                                                   TypeString(values.dtype(), values.shape())));
  }
  return absl::OkStatus();
}

// Each index once, with the sum of its rows.
IndexedSlices AddUpRows(GraphBuilder& g, const IndexedSlices& rows) {
  const auto unique = Unique(g, rows.indices);
  const Output count = Size(g, unique.y);
  return {UnsortedSegmentSum(g, rows.values, unique.idx, count), unique.y, rows.dense_shape};
}

}  // namespace

bool Hyperparameter::Check(GraphBuilder& g, absl::string_view asker, absl::string_view name,
                           SourceLocation where) const {
  if (const double* number = std::get_if<double>(&value_)) {
    return CheckFinite(g, asker, {{name, *number}}, where);
  }
  return CheckGiven(g, asker, name, std::get<Output>(value_), where);
}

Output Hyperparameter::In(GraphBuilder& g, DType dtype, absl::string_view name) const {
  if (const double* number = std::get_if<double>(&value_)) return ConstOf(g, dtype, *number, {.name = name});
  const Output output = std::get<Output>(value_);
  return output && output.dtype() != dtype ? Cast(g, output, dtype, {.name = name}) : output;
}

std::function<bool(const ModelVariable& variable)> NamedBelow(absl::string_view name) {
  return [name = std::string(name)](const ModelVariable& variable) {
    return variable.name == name || absl::StartsWith(variable.name, name + "/");
  };
}

absl::StatusOr<Node*> Optimizer::Minimize(GraphBuilder& g, Output loss, const ModelVariable& global_step,
                                          const GradientOptions& options, SourceLocation where) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<GradientAndVariable> gradients,
                        ComputeGradients(g, loss, options, where));
  return ApplyGradients(g, gradients, global_step, where);
}

absl::StatusOr<std::vector<GradientAndVariable>> Optimizer::ComputeGradients(GraphBuilder& g, Output loss,
                                                                             const GradientOptions& options,
                                                                             SourceLocation where) {
  if (!g.ok()) return g.status();
  const absl::StatusOr<std::vector<ModelVariable>> variables = Choose(g, options);
  if (!variables.ok()) {
    g.SetError(
        absl::Status(variables.status().code(), absl::StrCat(name_, ": ", variables.status().message())),
        where);
    return g.status();
  }
  std::vector<Output> handles;
  for (const ModelVariable& variable : *variables) handles.push_back(variable.handle);
  WEIR_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                        AddGradientFlows(g, {loss}, handles, {}, where));
  std::vector<GradientAndVariable> result;
  for (size_t i = 0; i < variables->size(); ++i) result.push_back({gradients[i], (*variables)[i]});
  return result;
}

absl::StatusOr<Node*> Optimizer::ApplyGradients(GraphBuilder& g,
                                                const std::vector<GradientAndVariable>& gradients,
                                                const ModelVariable& global_step, SourceLocation where) {
  std::vector<ModelVariable> variables;
  for (const auto& [gradient, variable] : gradients) {
    if (!IsNull(gradient)) variables.push_back(variable);
  }
  absl::Status status = variables.empty() ? NoGradients(gradients) : CheckShapes(gradients);
  if (!status.ok())
    g.SetError(absl::Status(status.code(), absl::StrCat(name_, ": ", status.message())), where);
  if (!g.ok()) return g.status();
  constants_.clear();
  where_ = where;
  Prepare(g, variables);
  std::vector<Node*> updates;
  for (const auto& [gradient, variable] : gradients) {
    if (!IsNull(gradient)) updates.push_back(AddUpdate(g, variable, gradient));
  }
  if (!g.ok()) return g.status();
  updates = Finish(g, std::move(updates));
  Node* const train =
      global_step.handle ? Count(g, global_step, updates, where) : Group(g, updates, {.name = name_}, where);
  if (!g.ok()) return g.status();
  g.graph().collections()["train_op"].push_back(train->name());
  return train;
}

Node* Optimizer::AddUpdate(GraphBuilder& g, const ModelVariable& variable, const Gradient& gradient) {
  const auto beside_variable = g.ColocationScope(variable.handle.node);
  const auto scope = g.NameScope(absl::StrCat(name_, "/update_", variable.name));
  num_slots_made_ = 0;
  const auto* const slices = std::get_if<IndexedSlices>(&gradient);
  if (slices == nullptr) return Update(g, variable, std::get<Output>(gradient));
  return UpdateRows(g, variable, takes_repeated_rows() ? *slices : AddUpRows(g, *slices));
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

ModelVariable Optimizer::MakeSlot(GraphBuilder& g, const ModelVariable& variable, absl::string_view name,
                                  const Initializer& initializer) {
  ModelVariable& slot = slots_[{variable.handle.node, num_slots_made_++}];
  if (!IsIn(g, slot)) slot = MakeVariableBeside(g, variable, name, initializer);
  return slot;
}

bool Optimizer::IsIn(const GraphBuilder& g, const ModelVariable& variable) {
  // By its name: the node may be one of a graph that is gone.
  return variable.handle && g.graph().FindNode(variable.name) == variable.handle.node;
}

Output Optimizer::On(GraphBuilder& g, const ModelVariable& variable, const Hyperparameter& parameter,
                     absl::string_view name) {
  const ConstantKey key(variable.handle.node->requested_device().ToString(), variable.dtype,
                        std::string(name));
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  if (!parameter.Check(g, name_, name, where_)) return {};
  return constants_[key] = parameter.In(g, variable.dtype, name);
}

}  // namespace weir
