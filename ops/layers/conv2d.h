// activation(convolution of x with the kernel + bias)
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"
#include "ops/layers/window.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct ConvolutionOptions {
  Window strides = 1;
  Window dilations = 1;
  std::string padding = "VALID";     // or "SAME"
  std::string data_format = "NHWC";  // or "NCHW"
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  bool trainable = true;
  absl::string_view name = "conv2d";
};

// x: images [batch, height, width, channels], channels known. Gives images with `filters` channels.
// Variables: kernel [height, width, channels, filters], bias [filters]. InvalidArgument, in the builder, for
// other shapes and for sizes below 1.
Output Conv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
              const Activation& activation = nullptr, const ConvolutionOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
