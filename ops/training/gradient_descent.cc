#include "ops/training/gradient_descent.h"

#include "ops/standard_ops.h"

namespace weir {

Node* GradientDescent::Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) {
  return ResourceApplyGradientDescent(g, variable.handle, On(g, variable, learning_rate_, "learning_rate"),
                                      gradient);
}

}  // namespace weir
