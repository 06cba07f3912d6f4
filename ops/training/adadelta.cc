#include "ops/training/adadelta.h"

#include "ops/standard_ops.h"

namespace weir {

Node* Adadelta::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const ModelVariable accumulator = MakeSlot(g, variable, name());
  const ModelVariable accumulated_update = MakeSlot(g, variable, name());
  const Output learning_rate = On(g, variable, learning_rate_, "lr");
  const Output rho = On(g, variable, options_.rho, "rho");
  const Output epsilon = On(g, variable, options_.epsilon, "epsilon");
  return ResourceApplyAdadelta(g, variable.handle, accumulator.handle, accumulated_update.handle,
                               learning_rate, rho, epsilon, gradient);
}

Node* Adadelta::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const ModelVariable accumulator = MakeSlot(g, variable, name());
  const ModelVariable accumulated_update = MakeSlot(g, variable, name());
  const Output learning_rate = On(g, variable, learning_rate_, "lr");
  const Output rho = On(g, variable, options_.rho, "rho");
  const Output epsilon = On(g, variable, options_.epsilon, "epsilon");
  return ResourceSparseApplyAdadelta(g, variable.handle, accumulator.handle, accumulated_update.handle,
                                     learning_rate, rho, epsilon, rows.values, rows.indices);
}

}  // namespace weir
