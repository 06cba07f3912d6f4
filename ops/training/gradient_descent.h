// var -= learning_rate * gradient
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

class GradientDescent final : public Optimizer {
 public:
  explicit GradientDescent(Hyperparameter learning_rate, std::string name = "GradientDescent")
      : Optimizer(std::move(name)), learning_rate_(learning_rate) {}

 private:
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;

  Hyperparameter learning_rate_;
};

}  // namespace weir
