// Batch normalization: gives each channel of a batch a learned mean and deviation (Ioffe and Szegedy, 2015).
//
// In training a channel is normalized by its own moments in the batch, and moving averages of these are kept
// for later. Otherwise it is normalized by the averages:
//
//   y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
//
// The nodes that move the averages are in the collection "update_ops". A training step must run them:
//
//   std::vector<Node*> nodes = layers::UpdateOps(g);
//   nodes.push_back(Momentum(0.1, 0.9).Minimize(g, loss, GlobalStep(g)).value());
//   Node* train = Group(g, nodes);
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct BatchNormalizationOptions {
  double momentum = 0.99;  // how much of a moving average stays in a step
  double epsilon = 0.001;
  std::string data_format = "NHWC";  // or "NCHW": channels are dimension 1, of an x of any rank
  bool center = true;                // false: no beta
  bool scale = true;                 // false: no gamma
  Initializer beta_initializer = initializers::Zeros();
  Initializer gamma_initializer = initializers::Ones();
  Initializer moving_mean_initializer = initializers::Zeros();
  Initializer moving_variance_initializer = initializers::Ones();
  Regularizer beta_regularizer;
  Regularizer gamma_regularizer;
  Partitioner partitioner;  // of beta and gamma; the averages are whole
  bool trainable = true;
  absl::string_view name = "batch_normalization";
};

// x: floating point, [batch, ..., channels] of rank 2 or more, channels known. training: known now, or a bool
// scalar that steps feed (PlaceholderWithDefault). Variables: gamma, beta, and the averages moving_mean and
// moving_variance, which are not trainable; double for a double x, else float.
//
// Images that are not double (rank 4) are normalized by FusedBatchNormV3. The average of the variance is then
// of the unbiased estimate (divided by one less than the number of elements), otherwise of the variance in
// the batch: so does TensorFlow.
//
// InvalidArgument, in the builder, for other shapes, for a momentum outside of [0, 1], and for an epsilon
// that is not finite.
Output BatchNormalization(GraphBuilder& g, Output x, std::variant<bool, Output> training,
                          const BatchNormalizationOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

// The nodes that a training step runs besides the optimizer's, in the order in which they were made.
std::vector<Node*> UpdateOps(GraphBuilder& g);

}  // namespace weir::layers
