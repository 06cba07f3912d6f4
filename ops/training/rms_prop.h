// RMSProp (Tieleman and Hinton, 2012), as TensorFlow 1.x computes it:
//
//   rms += (1 - decay) * (gradient^2 - rms)
//   step = momentum * step + learning_rate * gradient / sqrt(rms + epsilon);  var -= step
//
// Centered: mean += (1 - decay) * (gradient - mean), and rms - mean^2 stands below the root.
//
// The slots are "<variable>/RMSProp" (rms, which begins with ones) and "<variable>/RMSProp_1" (the step);
// centered, the mean is "<variable>/RMSProp_1" and the step "<variable>/RMSProp_2".
#pragma once

#include "ops/training/optimizer.h"

namespace weir {

struct RMSPropOptions {
  double decay = 0.9;
  double momentum = 0;
  double epsilon = 1e-10;
  bool centered = false;
  std::string name = "RMSProp";
};

class RMSProp final : public Optimizer {
 public:
  explicit RMSProp(Hyperparameter learning_rate, RMSPropOptions options = {})
      : Optimizer(options.name), learning_rate_(learning_rate), options_(std::move(options)) {}

 private:
  struct Slots;

  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override;
  Node* UpdateRows(GraphBuilder& g, const ModelVariable& variable, const IndexedSlices& rows) override;
  Slots MakeSlots(GraphBuilder& g, const ModelVariable& variable);

  Hyperparameter learning_rate_;
  RMSPropOptions options_;
};

}  // namespace weir
