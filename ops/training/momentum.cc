#include "ops/training/momentum.h"

#include "ops/standard_ops.h"

namespace weir {

Node* Momentum::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  const ModelVariable accumulator = MakeSlot(g, variable, name());
  return ResourceApplyMomentum(g, variable.handle, accumulator.handle,
                               On(g, variable, learning_rate_, "learning_rate"), gradient,
                               On(g, variable, momentum_, "momentum"), {.use_nesterov = use_nesterov_});
}

}  // namespace weir
