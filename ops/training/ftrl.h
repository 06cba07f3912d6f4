// FTRL-Proximal (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013, algorithm 1), as
// TensorFlow 1.x computes it. With l2_shrinkage the gradient becomes gradient + 2 * l2_shrinkage * variable.
//
// The slots are "<variable>/Ftrl" (the sum of squared gradients) and "<variable>/Ftrl_1" (the linear term).
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct FtrlOptions {
  double learning_rate_power = -0.5;       // must not be positive
  double initial_accumulator_value = 0.1;  // must not be negative
  double l1 = 0;                           // strengths of regularization, which must not be negative
  double l2 = 0;
  double l2_shrinkage = 0;
  std::string name = "Ftrl";
};

class Ftrl final : public Optimizer {
 public:
  explicit Ftrl(Hyperparameter learning_rate, FtrlOptions options = {})
      : Optimizer(options.name), learning_rate_(learning_rate), options_(std::move(options)) {}

 private:
  struct Slots;

  void Prepare(GraphBuilder& g, const std::vector<ModelVariable>& variables) override;
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;
  Slots MakeSlots(GraphBuilder& g, const ModelVariable& variable);

  Hyperparameter learning_rate_;
  FtrlOptions options_;
};

}  // namespace weir
