#include "ops/training/rms_prop.h"

#include "ops/standard_ops.h"

namespace weir {

// What an update takes beside the variable and its gradient.
struct RMSProp::Slots {
  ModelVariable rms, mean, step;
  Output learning_rate, decay, momentum, epsilon;
};

RMSProp::Slots RMSProp::MakeSlots(GraphBuilder& g, const ModelVariable& variable) {
  Slots slots;
  slots.rms = MakeSlot(g, variable, name(), initializers::Ones());
  if (options_.centered) slots.mean = MakeSlot(g, variable, name());
  slots.step = MakeSlot(g, variable, name());
  slots.learning_rate = On(g, variable, learning_rate_, "learning_rate");
  slots.decay = On(g, variable, options_.decay, "decay");
  slots.momentum = On(g, variable, options_.momentum, "momentum");
  slots.epsilon = On(g, variable, options_.epsilon, "epsilon");
  return slots;
}

Node* RMSProp::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const Slots s = MakeSlots(g, variable);
  if (options_.centered) {
    return ResourceApplyCenteredRMSProp(g, variable.handle, s.mean.handle, s.rms.handle, s.step.handle,
                                        s.learning_rate, s.decay, s.momentum, s.epsilon, gradient);
  }
  return ResourceApplyRMSProp(g, variable.handle, s.rms.handle, s.step.handle, s.learning_rate, s.decay,
                              s.momentum, s.epsilon, gradient);
}

Node* RMSProp::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const Slots s = MakeSlots(g, variable);
  if (options_.centered) {
    return ResourceSparseApplyCenteredRMSProp(g, variable.handle, s.mean.handle, s.rms.handle, s.step.handle,
                                              s.learning_rate, s.decay, s.momentum, s.epsilon, rows.values,
                                              rows.indices);
  }
  return ResourceSparseApplyRMSProp(g, variable.handle, s.rms.handle, s.step.handle, s.learning_rate, s.decay,
                                    s.momentum, s.epsilon, rows.values, rows.indices);
}

}  // namespace weir
