// activation(transposed convolution + bias): the gradient of a convolution, which makes images larger.
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"
#include "ops/layers/window.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct Conv2DTransposeOptions {
  Window strides = 1;
  std::string padding = "VALID";     // or "SAME"
  std::string data_format = "NHWC";  // or "NCHW"
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Partitioner partitioner;  // of the kernel and of the bias
  bool trainable = true;
  absl::string_view name = "conv2d_transpose";
};

// x: images [batch, height, width, channels], channels known. Gives images with `filters` channels, whose
// height is height * stride ("SAME") or height * stride + max(kernel height - stride, 0) ("VALID"); the width
// likewise. Variables: kernel [height, width, filters, channels], bias [filters]. InvalidArgument, in the
// builder, for other shapes, for sizes below 1, and for results too large.
Output Conv2DTranspose(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation = nullptr, const Conv2DTransposeOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
