// Adam (Kingma and Ba, 2014), as TensorFlow 1.x computes it:
//
//   rate = learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t)
//   m += (1 - beta1) * (gradient - m)
//   v += (1 - beta2) * (gradient^2 - v)
//   var -= rate * m / (sqrt(v) + epsilon)
//
// Rows of an embedding: m and v of all rows shrink in every step, and so every row moves; only the rows with
// a gradient add to m and v. That is not the lazy Adam that leaves the others alone.
//
// Slots m and v are "<variable>/Adam" and "<variable>/Adam_1"; beta1^t and beta2^t are the variables
// "beta1_power" and "beta2_power", beside the first variable by name.
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string name = "Adam";
};

class Adam final : public Optimizer {
 public:
  explicit Adam(Hyperparameter learning_rate = 0.001, AdamOptions options = {})
      : Optimizer(options.name), learning_rate_(learning_rate), options_(std::move(options)) {}

 private:
  void Prepare(GraphBuilder& g, const std::vector<ModelVariable>& variables) override;
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;
  std::vector<Node*> Finish(GraphBuilder& g, std::vector<Node*> updates) override;

  Hyperparameter learning_rate_;
  AdamOptions options_;
  ModelVariable beta1_power_;
  ModelVariable beta2_power_;
};

}  // namespace weir
