// Regularizers: penalties on the size of weights, which a layer puts into the collection
// "regularization_losses". ops/losses/total_loss.h adds them to the loss that is trained.
//
//   layers::Dense(g, x, 10, Relu, {.kernel_regularizer = regularizers::L2(1e-4)});
//
// Formulas are those of tf.contrib.layers of TensorFlow 1.15, where L2 has a half. Errors stick in the
// builder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph_builder.h"

namespace weir {

// Gives the penalty for the weights, a scalar of their dtype; adds its nodes in the current scopes.
using Regularizer = std::function<Output(GraphBuilder& g, Output weights)>;

// The collection of their outputs' names.
inline constexpr absl::string_view kRegularizationLosses = "regularization_losses";

namespace regularizers {

// scale * sum(|w|). InvalidArgument, like the others, for a scale that is negative or no number.
Regularizer L1(double scale);
// scale * sum(w^2) / 2
Regularizer L2(double scale);
// The sum of both.
Regularizer L1L2(double l1_scale, double l2_scale);

}  // namespace regularizers
}  // namespace weir
