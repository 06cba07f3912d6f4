// Gradients that are clipped before they are applied (tf.clip_by_value, clip_by_norm, clip_by_global_norm).
//
//   auto gradients = optimizer.ComputeGradients(g, loss).value();
//   gradients = ClipByGlobalNorm(g, gradients, 5.0);
//   Node* train = optimizer.ApplyGradients(g, gradients, GlobalStep(g)).value();
//
// They take any tensors too. Rows (IndexedSlices) stay rows: their values are clipped as they are, and a row
// that comes twice counts twice in a norm, as in TensorFlow. Nodes that scale a gradient ask for the device
// of its node. A null gradient stays null. Errors, InvalidArgument, stick in the builder.
#pragma once

#include <vector>

#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "ops/training/optimizer.h"

namespace weir {

// Every element put between minimum and maximum. minimum must not be above maximum.
Gradient ClipByValue(GraphBuilder& g, const Gradient& gradient, double minimum, double maximum,
                     SourceLocation where = SourceLocation::Current());

// gradient * clip_norm / max(norm, clip_norm), where norm is the L2 norm of the gradient, or of each of its
// parts along `axes`. clip_norm must be finite and not negative.
Gradient ClipByNorm(GraphBuilder& g, const Gradient& gradient, double clip_norm,
                    const std::vector<int32_t>& axes = {}, SourceLocation where = SourceLocation::Current());

// The L2 norm of all gradients together: a scalar of the first one's dtype. At least one must not be null.
Output GlobalNorm(GraphBuilder& g, const std::vector<Gradient>& gradients,
                  SourceLocation where = SourceLocation::Current());

struct ClippedGradients {
  std::vector<Gradient> gradients;  // in the order given
  Output global_norm;               // before clipping
};

struct ClipByGlobalNormOptions {
  Output use_norm;  // a scalar to be taken for the global norm; by default it is computed
};

// Every gradient times clip_norm / max(global norm, clip_norm). Where the norm is infinite or NaN all of them
// become NaN, so that the step fails visibly. clip_norm must be positive.
ClippedGradients ClipByGlobalNorm(GraphBuilder& g, const std::vector<Gradient>& gradients, double clip_norm,
                                  const ClipByGlobalNormOptions& options = {},
                                  SourceLocation where = SourceLocation::Current());
// The same for what ComputeGradients gives.
std::vector<GradientAndVariable> ClipByGlobalNorm(GraphBuilder& g, std::vector<GradientAndVariable> gradients,
                                                  double clip_norm,
                                                  const ClipByGlobalNormOptions& options = {},
                                                  SourceLocation where = SourceLocation::Current());

}  // namespace weir
