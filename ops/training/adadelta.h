// Adadelta (Zeiler, 2012), as TensorFlow 1.x computes it:
//
//   accumulator = rho * accumulator + (1 - rho) * gradient^2
//   update = sqrt(accumulated_update + epsilon) / sqrt(accumulator + epsilon) * gradient
//   accumulated_update = rho * accumulated_update + (1 - rho) * update^2;  var -= learning_rate * update
//
// The slots are "<variable>/Adadelta" and "<variable>/Adadelta_1".
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct AdadeltaOptions {
  double rho = 0.95;
  double epsilon = 1e-8;
  std::string name = "Adadelta";
};

class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(Hyperparameter learning_rate = 0.001, AdadeltaOptions options = {})
      : Optimizer(options.name), learning_rate_(learning_rate), options_(std::move(options)) {}

 private:
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;

  Hyperparameter learning_rate_;
  AdadeltaOptions options_;
};

}  // namespace weir
