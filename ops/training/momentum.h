// accumulator = momentum * accumulator + gradient; var -= learning_rate * accumulator
//
// With Nesterov's momentum var -= learning_rate * (gradient + momentum * accumulator). The slot is
// "<variable>/Momentum".
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct MomentumOptions {
  bool use_nesterov = false;
  std::string name = "Momentum";
};

class Momentum final : public Optimizer {
 public:
  Momentum(Hyperparameter learning_rate, Hyperparameter momentum, MomentumOptions options = {})
      : Optimizer(options.name),
        learning_rate_(learning_rate),
        momentum_(momentum),
        use_nesterov_(options.use_nesterov) {}

 private:
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;

  Hyperparameter learning_rate_;
  Hyperparameter momentum_;
  bool use_nesterov_;
};

}  // namespace weir
