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
#include <vector>

#include "graph/graph_builder.h"

namespace weir::layers {

struct BatchNormalizationOptions {
  double momentum = 0.99;  // how much of a moving average stays in a step
  double epsilon = 0.001;
  std::string data_format = "NHWC";  // or "NCHW"
  absl::string_view name = "batch_normalization";
};

// x: float, half or bfloat16 images [batch, height, width, channels], channels known. Variables are float:
// gamma, beta, and the averages moving_mean and moving_variance, which are not trainable. The average of the
// variance is of the unbiased estimate (divided by one less than the number of elements), as in TensorFlow.
Output BatchNormalization(GraphBuilder& g, Output x, bool is_training,
                          const BatchNormalizationOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

// The nodes that a training step runs besides the optimizer's, in the order in which they were made.
std::vector<Node*> UpdateOps(GraphBuilder& g);

}  // namespace weir::layers
