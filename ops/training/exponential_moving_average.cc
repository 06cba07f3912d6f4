#include "ops/training/exponential_moving_average.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/control_flow.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

constexpr char kAveragedVariables[] = "moving_average_variables";

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kHalf ||
         dtype == DType::kBfloat16;
}

// The variable's value if it has one (it may have been restored), else its initial value.
Initializer ValueOf(const ModelVariable& variable, SourceLocation where) {
  return [variable, where](GraphBuilder& g, DType dtype, const Shape&) {
    const auto read = [&] {
      return std::vector<Output>{ReadVariableOp(g, variable.handle, dtype, {}, where)};
    };
    const auto initial = [&] { return std::vector<Output>{variable.initial_value}; };
    return Cond(g, VarIsInitializedOp(g, variable.handle, {}, where), read, initial, {}, where)[0];
  };
}

// What the variable is after `assignment`.
Output ReadAfter(GraphBuilder& g, Node* assignment, const ModelVariable& variable, SourceLocation where) {
  const auto after = g.ControlScope({assignment});
  return ReadVariableOp(g, variable.handle, variable.dtype, {}, where);
}

// variable -= (variable - value) * rate, with the variable's value now.
Node* MoveTowards(GraphBuilder& g, const ModelVariable& variable, Output value, Output rate,
                  SourceLocation where) {
  const Output now = ReadVariableOp(g, variable.handle, variable.dtype, {}, where);
  const Output change = Mul(g, Sub(g, now, value, {}, where), rate, {}, where);
  return AssignSubVariableOp(g, variable.handle, change, {.name = "AssignMovingAvg"}, where);
}

}  // namespace

absl::StatusOr<Node*> ExponentialMovingAverage::Apply(
    GraphBuilder& g, const std::optional<std::vector<ModelVariable>>& variables, SourceLocation where) {
  if (!g.ok()) return g.status();
  const std::vector<ModelVariable> averaged = variables ? *variables : TrainableVariables(g);
  for (const ModelVariable& variable : averaged) {
    const bool is_there = variable.handle && variable.initial_value;
    if (is_there && IsFloat(variable.dtype)) continue;
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   options_.name, ": '", variable.name, "' ",
                   is_there ? absl::StrCat("must be floating point, is ", DTypeName(variable.dtype))
                            : "is not in the graph or has no initial value")),
               where);
    return g.status();
  }
  for (const ModelVariable& variable : averaged) {
    if (slots_.count(variable.name) == 0) slots_[variable.name] = MakeOfVariable(g, variable, where);
  }
  const auto scope = g.NameScope(options_.name);
  std::vector<Node*> updates;
  for (const ModelVariable& variable : averaged) {
    if (!g.ok()) return g.status();
    const auto beside_variable = g.ColocationScope(variable.handle.node);
    const Output now = ReadVariableOp(g, variable.handle, variable.dtype, {}, where);
    updates.push_back(Move(g, slots_[variable.name], now, where));
  }
  return Finish(g, updates, where);
}

absl::StatusOr<Node*> ExponentialMovingAverage::ApplyToTensors(GraphBuilder& g,
                                                               const std::vector<Output>& tensors,
                                                               SourceLocation where) {
  if (!g.ok()) return g.status();
  for (const Output& tensor : tensors) {
    if (tensor && !CheckGiven(g, options_.name, "a tensor", tensor, where)) return g.status();
    if (tensor && IsFloat(tensor.dtype()) && tensor.shape().is_fully_known()) continue;
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(options_.name, ": a tensor must be floating point and of known shape: '",
                                tensor ? tensor.name() : "", "' is ",
                                tensor ? TypeString(tensor.dtype(), tensor.shape()) : "missing")),
               where);
    return g.status();
  }
  for (const Output& tensor : tensors) {
    if (slots_.count(tensor.name()) == 0) slots_[tensor.name()] = MakeOfTensor(g, tensor, where);
  }
  const auto scope = g.NameScope(options_.name);
  std::vector<Node*> updates;
  for (const Output& tensor : tensors) {
    if (!g.ok()) return g.status();
    const Slots& slots = slots_[tensor.name()];
    const auto beside_average = g.ColocationScope(slots.average.handle.node);
    updates.push_back(Move(g, slots, tensor, where));
  }
  return Finish(g, updates, where);
}

ExponentialMovingAverage::Slots ExponentialMovingAverage::MakeOfVariable(GraphBuilder& g,
                                                                         const ModelVariable& variable,
                                                                         SourceLocation where) {
  g.graph().collections()[kAveragedVariables].push_back(variable.handle.name());
  return {MakeVariableBeside(g, variable, options_.name, ValueOf(variable, where), where), {}, {}};
}

ExponentialMovingAverage::Slots ExponentialMovingAverage::MakeOfTensor(GraphBuilder& g, const Output& tensor,
                                                                       SourceLocation where) {
  const auto root = g.NameScope("");
  const auto make = [&](const std::string& name, const Shape& shape) {
    return MakeVariable(g, name, tensor.dtype(), shape, initializers::Zeros(), {.trainable = false}, where);
  };
  Slots slots;
  const Shape shape = tensor.shape().ToShape();
  slots.average = make(absl::StrCat(tensor.node->name(), "/", options_.name), shape);
  if (!options_.zero_debias || !slots.average.handle) return slots;
  const auto beside_average = g.ColocationScope(slots.average.handle.node);
  slots.biased = make(slots.average.name + "/biased", shape);
  slots.local_step = make(slots.average.name + "/local_step", Shape());
  return slots;
}

// As TensorFlow computes it: in float, and in the variable's dtype only what is left of 1.
Output ExponentialMovingAverage::DecayFor(GraphBuilder& g, DType dtype, SourceLocation where) {
  if (!decay_.Check(g, options_.name, "decay", where)) return {};
  const Output one = Const(g, 1.0f, {}, where);
  Output decay = decay_.In(g, DType::kFloat32, "decay");
  Output count = options_.num_updates.value;
  if (const ModelVariable& variable = options_.num_updates.variable; variable.handle) {
    count = ReadVariableOp(g, variable.handle, variable.dtype, {}, where);
  }
  if (count) {
    const Output updates = Cast(g, count, DType::kFloat32, {}, where);
    const Output numerator = AddV2(g, one, updates, {}, where);
    const Output denominator = AddV2(g, Const(g, 10.0f, {}, where), updates, {}, where);
    decay = Minimum(g, decay, RealDiv(g, numerator, denominator, {}, where), {}, where);
  }
  const Output rate = Sub(g, one, decay, {}, where);
  return dtype == DType::kFloat32 ? rate : Cast(g, rate, dtype, {}, where);
}

Node* ExponentialMovingAverage::Move(GraphBuilder& g, const Slots& slots, Output value,
                                     SourceLocation where) {
  const DType dtype = slots.average.dtype;
  const Output rate = DecayFor(g, dtype, where);
  if (!slots.biased.handle) return MoveTowards(g, slots.average, value, rate, where);
  const Output one = ConstOf(g, dtype, 1, {}, where);
  Node* const moved = MoveTowards(g, slots.biased, value, rate, where);
  Node* const counted = AssignAddVariableOp(g, slots.local_step.handle, one, {}, where);
  const Output biased = ReadAfter(g, moved, slots.biased, where);
  const Output steps = ReadAfter(g, counted, slots.local_step, where);
  // What the first zero has left after so many steps.
  const Output left = Pow(g, Sub(g, one, rate, {}, where), steps, {}, where);
  const Output unbiased = RealDiv(g, biased, Sub(g, one, left, {}, where), {}, where);
  return AssignVariableOp(g, slots.average.handle, unbiased, {}, where);
}

absl::StatusOr<Node*> ExponentialMovingAverage::Finish(GraphBuilder& g, const std::vector<Node*>& updates,
                                                       SourceLocation where) {
  Node* const all = Group(g, updates, {.name = "update"}, where);
  if (!g.ok()) return g.status();
  return all;
}

const ModelVariable* ExponentialMovingAverage::AverageOf(const std::string& name) const {
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : &found->second.average;
}

const ModelVariable* ExponentialMovingAverage::Average(const Output& tensor) const {
  return tensor ? AverageOf(tensor.name()) : nullptr;
}

std::string ExponentialMovingAverage::AverageName(const ModelVariable& variable) const {
  const ModelVariable* const average = AverageOf(variable.name);
  return average != nullptr ? average->name : absl::StrCat(variable.name, "/", options_.name);
}

std::map<std::string, ModelVariable> ExponentialMovingAverage::VariablesToRestore(
    GraphBuilder& g, const std::optional<std::vector<ModelVariable>>& averaged) const {
  std::map<std::string, ModelVariable> by_saved_name;
  std::set<std::string> names;
  const auto restore_average = [&](const ModelVariable& variable) {
    by_saved_name[AverageName(variable)] = variable;
    names.insert(variable.name);
  };
  const std::vector<ModelVariable> all = AllVariables(g);
  for (const ModelVariable& variable : averaged ? *averaged : all) {
    if (averaged || variable.trainable || slots_.count(variable.name) > 0) restore_average(variable);
  }
  for (const ModelVariable& variable : all) {
    if (names.count(variable.name) == 0) by_saved_name.emplace(variable.name, variable);
  }
  return by_saved_name;
}

}  // namespace weir
