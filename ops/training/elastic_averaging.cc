#include "ops/training/elastic_averaging.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/local_steps.h"

namespace weir {

absl::Status ElasticAveraging::Check(GraphBuilder& g, SourceLocation where) const {
  if (!g.ok()) return g.status();
  std::string wrong;
  if (!(options_.moving_rate > 0 && options_.moving_rate <= 1)) {
    wrong = absl::StrCat("moving_rate must be above 0 and at most 1, is ", options_.moving_rate);
  } else if (options_.period < 1) {
    wrong = absl::StrCat("period must be at least 1, is ", options_.period);
  } else if (!(options_.momentum >= 0 && options_.momentum < 1)) {
    wrong = absl::StrCat("momentum must be from 0 to below 1, is ", options_.momentum);
  }
  if (!wrong.empty()) g.SetError(absl::InvalidArgumentError(absl::StrCat(name(), ": ", wrong)), where);
  if (g.ok()) options_.learning_rate.Check(g, name(), "learning_rate", where);
  return g.status();
}

absl::StatusOr<std::vector<GradientAndVariable>> ElasticAveraging::ComputeGradients(
    GraphBuilder& g, Output loss, const GradientOptions& options, SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, where));
  if (!copies_.empty()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(name(), ": the model reads local copies already")),
               where);
    return g.status();
  }
  const int first_new = g.graph().num_nodes();
  WEIR_ASSIGN_OR_RETURN(const std::vector<ModelVariable> chosen, ChosenVariables(g, name(), options, where));
  WEIR_ASSIGN_OR_RETURN(copies_, MakeLocalCopies(g, name(), chosen, where));
  const auto scope = g.NameScope(name());
  step_ = MakeLocalStep(g, where);
  std::vector<Output> read;
  std::vector<ModelVariable> locals;
  for (const LocalCopy& copy : copies_) {
    locals.push_back(copy.local);
    read.push_back(copy.local.value);
    if (options_.momentum == 0) continue;
    velocities_.push_back(MakeLocalZeros(g, copy.center, "velocity", where));
    const auto beside_copy = g.ColocationScope(copy.local.handle.node);
    const Output momentum = ConstOf(g, copy.local.dtype, options_.momentum, {}, where);
    read.back() = Add(g, copy.local.value, Mul(g, momentum, velocities_.back().value, {}, where),
                      {.name = "ahead"}, where);
  }
  ReadInstead(g, copies_, read, first_new);
  WEIR_ASSIGN_OR_RETURN(std::vector<GradientAndVariable> gradients,
                        Optimizer::ComputeGradients(g, loss, {.variables = locals}, where));
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].variable = copies_[i].center;
  return gradients;
}

std::vector<Node*> ElasticAveraging::Exchange(GraphBuilder& g, const std::vector<size_t>& which,
                                              const ModelVariable& global_step, SourceLocation where) const {
  std::vector<Node*> ends;
  for (const size_t i : which) {
    const LocalCopy& copy = copies_[i];
    Output center, difference;
    {
      const auto beside_center = g.ColocationScope(copy.center.handle.node);
      center = ReadVariableOp(g, copy.center.handle, copy.center.dtype, {.name = "center"}, where);
    }
    {
      const auto beside_copy = g.ColocationScope(copy.local.handle.node);
      const Output rate = ConstOf(g, copy.local.dtype, options_.moving_rate, {}, where);
      difference = Mul(g, rate, Sub(g, copy.local.value, center, {}, where), {}, where);
      ends.push_back(AssignSubVariableOp(g, copy.local.handle, difference, {}, where));
    }
    const auto beside_center = g.ColocationScope(copy.center.handle.node);
    ends.push_back(AssignAddVariableOp(g, copy.center.handle, difference, {}, where));
  }
  if (!global_step.handle) return ends;
  const auto after = g.ControlScope(ends);
  const auto beside_counter = g.ColocationScope(global_step.handle.node);
  ends.push_back(
      AssignAddVariableOp(g, global_step.handle, ConstOf(g, global_step.dtype, 1, {}, where), {}, where));
  return ends;
}

Node* ElasticAveraging::Move(GraphBuilder& g, size_t index, Output gradient, SourceLocation where) const {
  const ModelVariable& local = copies_[index].local;
  const auto beside_copy = g.ColocationScope(local.handle.node);
  const Output change =
      Mul(g, options_.learning_rate.In(g, local.dtype, "learning_rate"), gradient, {}, where);
  if (velocities_.empty()) return AssignSubVariableOp(g, local.handle, change, {}, where);
  const ModelVariable& velocity = velocities_[index];
  const Output momentum = ConstOf(g, local.dtype, options_.momentum, {}, where);
  const Output next = Sub(g, Mul(g, momentum, velocity.value, {}, where), change, {}, where);
  Node* const set = AssignVariableOp(g, velocity.handle, next, {}, where);
  const auto after_set = g.ControlScope({set});
  return AssignAddVariableOp(g, local.handle, next, {}, where);
}

absl::StatusOr<Node*> ElasticAveraging::ApplyGradients(GraphBuilder& g,
                                                       const std::vector<GradientAndVariable>& gradients,
                                                       const ModelVariable& global_step,
                                                       SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, where));
  WEIR_RETURN_IF_ERROR(CheckLocalGradients(g, name(), gradients, copies_, where));
  const auto scope = g.NameScope(name());
  std::vector<size_t> which;
  std::vector<Node*> computed;
  for (const auto& [gradient, center] : gradients) {
    if (IsNull(gradient)) continue;
    which.push_back(CopyOfCenter(copies_, center) - copies_.data());
    computed.push_back(std::get<Output>(gradient).node);
  }
  // A step whose gradient fails has exchanged nothing.
  Node* exchanged = nullptr;
  {
    const auto after_gradients = g.ControlScope(computed);
    exchanged = When(
        g, IsDue(g, step_.value, options_.period, 0, where),
        [&] { return Exchange(g, which, global_step, where); }, where);
  }
  std::vector<Node*> moved;
  {
    const auto after_exchange = g.ControlScope({exchanged});
    size_t next = 0;
    for (const auto& [gradient, center] : gradients) {
      if (!IsNull(gradient)) moved.push_back(Move(g, which[next++], std::get<Output>(gradient), where));
    }
  }
  return EndLocalStep(g, step_, moved, where);
}

}  // namespace weir
