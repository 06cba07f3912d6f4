// Training with 16-bit floats: small gradients become zero there. The loss is multiplied by a scale before
// gradients are computed, and they are divided by it before they are applied.
//
//   LossScaleOptimizer optimizer(Momentum(0.1, 0.9), DynamicLossScale());
//   Node* train = optimizer.Minimize(g, loss, GlobalStep(g)).value();
//
// A dynamic scale follows the gradients. A step with a gradient that is infinite or NaN changes no variable
// and does not count, and divides the scale by the multiplier, down to 1 at least. After increment_period
// steps in a row that were finite, the scale is multiplied. It is kept in the variables "current_loss_scale"
// (float) and "good_steps" (int64), which are not trainable.
// (tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer.)
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "ops/training/optimizer.h"

namespace weir {

struct FixedLossScale {
  double value = 1;  // at least 1
};

struct DynamicLossScale {
  double initial_loss_scale = 32768;  // at least 1
  int64_t increment_period = 2000;    // at least 1
  double multiplier = 2;              // above 1
};

using LossScale = std::variant<FixedLossScale, DynamicLossScale>;

class LossScaleOptimizer final : public Optimizer {
 public:
  // `optimizer`, by value, applies the gradients.
  template <typename Wrapped>
  LossScaleOptimizer(Wrapped optimizer, LossScale scale)
      : LossScaleOptimizer(std::unique_ptr<Optimizer>(std::make_unique<Wrapped>(std::move(optimizer))),
                           scale) {}
  LossScaleOptimizer(std::unique_ptr<Optimizer> optimizer, LossScale scale);

  // Gradients of the loss itself, computed through the scaled one. Also InvalidArgument for a scale out of
  // range.
  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(
      GraphBuilder& g, Output loss, const GradientOptions& options = {},
      SourceLocation where = SourceLocation::Current()) override;
  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step = {},
                                       SourceLocation where = SourceLocation::Current()) override;
  bool keeps_local_copies() const override {
    return optimizer_ != nullptr && optimizer_->keeps_local_copies();
  }
  bool measures_staleness() const override {
    return optimizer_ != nullptr && optimizer_->measures_staleness();
  }

  // The scale of a step, a float scalar; null before the first call of ComputeGradients or ApplyGradients.
  Output loss_scale() const { return scale_; }

 private:
  // The wrapped optimizer updates.
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;

  absl::Status MakeScale(GraphBuilder& g, SourceLocation where);
  std::vector<Node*> UpdateScale(GraphBuilder& g, Output is_finite, SourceLocation where);

  std::unique_ptr<Optimizer> optimizer_;
  LossScale options_;
  Output scale_;
  ModelVariable current_scale_;
  ModelVariable good_steps_;
};

}  // namespace weir
