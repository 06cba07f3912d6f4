// Adagrad (Duchi, Hazan and Singer, 2011), as TensorFlow 1.x computes it:
//
//   accumulator += gradient^2;  var -= learning_rate * gradient / sqrt(accumulator)
//
// The slot is "<variable>/Adagrad".
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct AdagradOptions {
  double initial_accumulator_value = 0.1;  // must be positive
  std::string name = "Adagrad";
};

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(Hyperparameter learning_rate, AdagradOptions options = {})
      : Optimizer(options.name), learning_rate_(learning_rate), options_(std::move(options)) {}

 private:
  void Prepare(GraphBuilder& g, const std::vector<ModelVariable>& variables) override;
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;
  ModelVariable MakeAccumulator(GraphBuilder& g, const ModelVariable& variable);

  Hyperparameter learning_rate_;
  AdagradOptions options_;
};

}  // namespace weir
