// The records of ops about which there is nothing more to say than their name, summary and shape function.
#pragma once

#include <string>
#include <utility>

#include "graph/op_def.h"

namespace weir {

// No gradient flows through it: gradients stop there.
inline OpDef WithoutGradient(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

// Weir does not build its gradient: who asks for one gets an error. (TensorFlow's clients bring their own.)
inline OpDef WithGradientMissing(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = GradientMissing};
}

}  // namespace weir
