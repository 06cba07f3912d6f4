#include "ops/training/adam.h"

#include <algorithm>

#include "ops/standard_ops.h"

namespace weir {
namespace {

// In float whatever the variables are, as in TensorFlow: 0.999 is 1 in bfloat16, and nothing would be
// trained.
ModelVariable MakePower(GraphBuilder& g, const ModelVariable& first, absl::string_view name, double beta) {
  const auto root = g.NameScope("");
  const auto beside_first = g.ColocationScope(first.handle.node);
  return MakeVariable(g, name, DType::kFloat32, Shape(), initializers::Constant(beta), {.trainable = false});
}

// The scalar in the variable's dtype.
Output PowerFor(GraphBuilder& g, const ModelVariable& power, const ModelVariable& variable) {
  return power.dtype == variable.dtype ? power.value : Cast(g, power.value, variable.dtype);
}

// Of what it is then: steps of other workers, which overlap with this one, have multiplied it since it began.
Node* MultiplyAfter(GraphBuilder& g, const ModelVariable& power, const Hyperparameter& beta,
                    absl::string_view name, Node* updated) {
  const Output factor = beta.In(g, power.dtype, name);
  const auto after_updates = g.ControlScope({updated});
  const Output now = ReadVariableOp(g, power.handle, power.dtype);
  return AssignVariableOp(g, power.handle, Mul(g, now, factor));
}

// The slot shrunk by beta as a whole, with (1 - beta) * change added to the rows. Read after that.
Output ShrinkAndAdd(GraphBuilder& g, const ModelVariable& slot, Output beta, Output change, Output indices) {
  const Output one = ConstOf(g, slot.dtype, 1);
  Node* const shrunk = AssignVariableOp(g, slot.handle, Mul(g, slot.value, beta));
  Node* added = nullptr;
  {
    const auto after_shrinking = g.ControlScope({shrunk});
    added = ResourceScatterAdd(g, slot.handle, indices, Mul(g, change, Sub(g, one, beta)));
  }
  const auto after_adding = g.ControlScope({added});
  return ReadVariableOp(g, slot.handle, slot.dtype);
}

}  // namespace

void Adam::Prepare(GraphBuilder& g, const std::vector<ModelVariable>& variables) {
  if (IsIn(g, beta1_power_) && IsIn(g, beta2_power_)) return;  // of an earlier call
  const auto by_name = [](const ModelVariable& a, const ModelVariable& b) { return a.name < b.name; };
  const ModelVariable& first = *std::min_element(variables.begin(), variables.end(), by_name);
  beta1_power_ = MakePower(g, first, "beta1_power", options_.beta1);
  beta2_power_ = MakePower(g, first, "beta2_power", options_.beta2);
}

Node* Adam::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const ModelVariable m = MakeSlot(g, variable, name());
  const ModelVariable v = MakeSlot(g, variable, name());
  // One statement each: the order of nodes must not depend on the compiler.
  const Output beta1_power = PowerFor(g, beta1_power_, variable);
  const Output beta2_power = PowerFor(g, beta2_power_, variable);
  const Output learning_rate = On(g, variable, learning_rate_, "learning_rate");
  const Output beta1 = On(g, variable, options_.beta1, "beta1");
  const Output beta2 = On(g, variable, options_.beta2, "beta2");
  const Output epsilon = On(g, variable, options_.epsilon, "epsilon");
  return ResourceApplyAdam(g, variable.handle, m.handle, v.handle, beta1_power, beta2_power, learning_rate,
                           beta1, beta2, epsilon, gradient);
}

Node* Adam::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const ModelVariable m = MakeSlot(g, variable, name());
  const ModelVariable v = MakeSlot(g, variable, name());
  const Output beta1_power = PowerFor(g, beta1_power_, variable);
  const Output beta2_power = PowerFor(g, beta2_power_, variable);
  const Output learning_rate = On(g, variable, learning_rate_, "learning_rate");
  const Output beta1 = On(g, variable, options_.beta1, "beta1");
  const Output beta2 = On(g, variable, options_.beta2, "beta2");
  const Output epsilon = On(g, variable, options_.epsilon, "epsilon");
  const Output one = ConstOf(g, variable.dtype, 1);
  const Output correction = Sqrt(g, Sub(g, one, beta2_power));
  const Output rate = RealDiv(g, Mul(g, learning_rate, correction), Sub(g, one, beta1_power));
  const Output new_m = ShrinkAndAdd(g, m, beta1, rows.values, rows.indices);
  const Output new_v = ShrinkAndAdd(g, v, beta2, Square(g, rows.values), rows.indices);
  const Output scale = AddV2(g, Sqrt(g, new_v), epsilon);
  return AssignSubVariableOp(g, variable.handle, RealDiv(g, Mul(g, new_m, rate), scale));
}

std::vector<Node*> Adam::Finish(GraphBuilder& g, std::vector<Node*> updates) {
  const auto scope = g.NameScope(name() + "/finish");
  const auto beside_powers = g.ColocationScope(beta1_power_.handle.node);
  Node* const updated = Group(g, updates, {.name = "updated"});
  Node* const beta1 = MultiplyAfter(g, beta1_power_, options_.beta1, "beta1", updated);
  Node* const beta2 = MultiplyAfter(g, beta2_power_, options_.beta2, "beta2", updated);
  return {beta1, beta2};
}

}  // namespace weir
