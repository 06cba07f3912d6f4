#include "ops/training/momentum.h"

#include "ops/standard_ops.h"

namespace weir {

Node* Momentum::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const ModelVariable accumulator = MakeSlot(g, variable, name());
  const Output learning_rate = On(g, variable, learning_rate_, "learning_rate");
  const Output momentum = On(g, variable, momentum_, "momentum");
  return ResourceApplyMomentum(g, variable.handle, accumulator.handle, learning_rate, gradient, momentum,
                               {.use_nesterov = use_nesterov_});
}

Node* Momentum::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const ModelVariable accumulator = MakeSlot(g, variable, name());
  const Output learning_rate = On(g, variable, learning_rate_, "learning_rate");
  const Output momentum = On(g, variable, momentum_, "momentum");
  return ResourceSparseApplyMomentum(g, variable.handle, accumulator.handle, learning_rate, rows.values,
                                     rows.indices, momentum, {.use_nesterov = use_nesterov_});
}

}  // namespace weir
