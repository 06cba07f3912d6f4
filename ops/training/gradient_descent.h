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
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;
  bool takes_repeated_rows() const override { return true; }

  Hyperparameter learning_rate_;
};

}  // namespace weir
