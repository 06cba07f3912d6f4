#include "ops/training/gradient_descent.h"

#include "ops/standard_ops.h"

namespace weir {

Node* GradientDescent::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  return ResourceApplyGradientDescent(g, variable.handle, On(g, variable, learning_rate_, "learning_rate"),
                                      gradient);
}

Node* GradientDescent::UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) {
  const Output step = Mul(g, rows.values, On(g, variable, learning_rate_, "learning_rate"));
  return ResourceScatterSub(g, variable.handle, rows.indices, step);
}

}  // namespace weir
