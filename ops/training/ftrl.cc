#include "ops/training/ftrl.h"

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {

// What an update takes beside the variable and its gradient.
struct Ftrl::Slots {
  ModelVariable accumulator, linear;
  Output learning_rate, l1, l2, l2_shrinkage, learning_rate_power;
};

void Ftrl::Prepare(GraphBuilder& g, const std::vector<ModelVariable>&) {
  const auto refuse = [&](absl::string_view what, double value) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(name(), ": ", what, ", is ", value)), where());
  };
  CheckFinite(g, name(),
              {{"learning_rate_power", options_.learning_rate_power},
               {"initial_accumulator_value", options_.initial_accumulator_value},
               {"l1", options_.l1},
               {"l2", options_.l2},
               {"l2_shrinkage", options_.l2_shrinkage}},
              where());
  if (!(options_.learning_rate_power <= 0)) {
    refuse("learning_rate_power must not be positive", options_.learning_rate_power);
  }
  if (!(options_.initial_accumulator_value >= 0)) {
    refuse("initial_accumulator_value must not be negative", options_.initial_accumulator_value);
  }
  if (!(options_.l1 >= 0)) refuse("l1 must not be negative", options_.l1);
  if (!(options_.l2 >= 0)) refuse("l2 must not be negative", options_.l2);
  if (!(options_.l2_shrinkage >= 0)) refuse("l2_shrinkage must not be negative", options_.l2_shrinkage);
}

Ftrl::Slots Ftrl::MakeSlots(GraphBuilder& g, const ModelVariable& variable) {
  Slots slots;
  slots.accumulator =
      MakeSlot(g, variable, name(), initializers::Constant(options_.initial_accumulator_value));
  slots.linear = MakeSlot(g, variable, name());
  slots.learning_rate = On(g, variable, learning_rate_, "learning_rate");
  slots.l1 = On(g, variable, options_.l1, "l1_regularization_strength");
  slots.l2 = On(g, variable, options_.l2, "l2_regularization_strength");
  if (options_.l2_shrinkage > 0) {
    slots.l2_shrinkage = On(g, variable, options_.l2_shrinkage, "l2_shrinkage_regularization_strength");
  }
  slots.learning_rate_power = On(g, variable, options_.learning_rate_power, "learning_rate_power");
  return slots;
}

Node* Ftrl::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const Slots s = MakeSlots(g, variable);
  if (options_.l2_shrinkage > 0) {
    return ResourceApplyFtrlV2(g, variable.handle, s.accumulator.handle, s.linear.handle, gradient,
                               s.learning_rate, s.l1, s.l2, s.l2_shrinkage, s.learning_rate_power);
  }
  return ResourceApplyFtrl(g, variable.handle, s.accumulator.handle, s.linear.handle, gradient,
                           s.learning_rate, s.l1, s.l2, s.learning_rate_power);
}

Node* Ftrl::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const Slots s = MakeSlots(g, variable);
  if (options_.l2_shrinkage > 0) {
    return ResourceSparseApplyFtrlV2(g, variable.handle, s.accumulator.handle, s.linear.handle, rows.values,
                                     rows.indices, s.learning_rate, s.l1, s.l2, s.l2_shrinkage,
                                     s.learning_rate_power);
  }
  return ResourceSparseApplyFtrl(g, variable.handle, s.accumulator.handle, s.linear.handle, rows.values,
                                 rows.indices, s.learning_rate, s.l1, s.l2, s.learning_rate_power);
}

}  // namespace weir
