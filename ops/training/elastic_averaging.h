// Elastic averaging: each worker trains a copy of its own, and every few steps the copy and the center on the
// parameter servers are drawn to each other.
//
//   Node* train = ElasticAveraging({.learning_rate = 0.05, .moving_rate = 0.1, .period = 10})
//                     .Minimize(g, loss, GlobalStep(g)).value();
//
// EASGD (Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", 2015, algorithm 1): in its
// step t, from 0 on, a worker whose copy is x, with the center x~,
//   computes the gradient g at x
//   x -= d and x~ += d for d = moving_rate (x - x~)      if t mod period = 0
//   x -= learning_rate g
// EAMSGD (algorithm 2), with a momentum above 0 and a velocity v, that begins with 0: g is the gradient at
// x + momentum v, and the last line becomes
//   v = momentum v - learning_rate g;  x += v
//
// In the paper's letters the moving rate alpha is learning_rate rho, for p workers about beta / p, and the
// period is tau. The global step counts exchanges of all workers. A worker whose session begins anew starts
// from the center, with t = 0 and v = 0. Checkpoints have the center alone (ops/training/local_copies.h).
// Variables whose rows are looked up are refused. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/training/local_copies.h"
#include "ops/training/optimizer.h"

namespace weir {

struct ElasticAveragingOptions {
  Hyperparameter learning_rate = 0.01;
  double moving_rate = 0.1;  // above 0, at most 1
  int64_t period = 10;       // at least 1
  double momentum = 0;       // from 0, below 1
};

class ElasticAveraging final : public Optimizer {
 public:
  explicit ElasticAveraging(const ElasticAveragingOptions& options)
      : Optimizer("ElasticAveraging"), options_(options) {}

  // Also InvalidArgument for options out of range, and a second call.
  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(
      GraphBuilder& g, Output loss, const GradientOptions& options = {},
      SourceLocation where = SourceLocation::Current()) override;
  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step = {},
                                       SourceLocation where = SourceLocation::Current()) override;
  bool keeps_local_copies() const override { return true; }

 private:
  Node* Update(GraphBuilder&, const ModelVariable&, Output) override {
    return nullptr;
  }  // copies have theirs
  absl::Status Check(GraphBuilder& g, SourceLocation where) const;
  std::vector<Node*> Exchange(GraphBuilder& g, const std::vector<size_t>& which,
                              const ModelVariable& global_step, SourceLocation where) const;
  Node* Move(GraphBuilder& g, size_t index, Output gradient, SourceLocation where) const;

  const ElasticAveragingOptions options_;
  std::vector<LocalCopy> copies_;
  std::vector<ModelVariable> velocities_;  // none without momentum
  ModelVariable step_;
};

}  // namespace weir
