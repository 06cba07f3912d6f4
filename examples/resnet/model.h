// Residual networks for images of 32 x 32 (He, Zhang, Ren and Sun, Deep Residual Learning, 2015,
// section 4.2).
//
// A 3x3 convolution, then three stages of residual blocks with 16, 32 and 64 filters, each stage after the
// first at half the resolution, then the mean over the image and a dense layer. A block is two 3x3
// convolutions beside a shortcut. Every convolution is followed by batch normalization.
#pragma once

#include "graph/graph_builder.h"

namespace weir::examples {

struct ResNetOptions {
  int depth = 20;           // 6 n + 2, for n blocks a stage: 20, 32, 44, 56, 110
  bool is_training = true;  // normalize by the batch and move the averages (layers::UpdateOps), or use them
  // What convolutions compute in: float or bfloat16. Variables are float whatever it is.
  DType compute_dtype = DType::kFloat32;
};

// Logits, float [batch, 10], of images, float [batch, 32, 32, 3]. InvalidArgument for a depth that does not
// fit, sticky in the builder.
Output ResNet(GraphBuilder& g, Output images, const ResNetOptions& options = {});

}  // namespace weir::examples
