// Convolutions of each channel by itself (DepthwiseConv2D), and these followed by a convolution with a window
// of one pixel, which mixes the channels (SeparableConv2D).
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"
#include "ops/layers/window.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct DepthwiseConv2DOptions {
  Window strides = 1;                // height and width must be equal
  std::string padding = "VALID";     // or "SAME"
  std::string data_format = "NHWC";  // or "NCHW"
  int64_t depth_multiplier = 1;      // channels that each channel gives
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer depthwise_regularizer;
  Regularizer bias_regularizer;
  Partitioner partitioner;  // of all variables
  bool trainable = true;
  absl::string_view name = "depthwise_conv2d";
};

// x: images [batch, height, width, channels], channels known. Gives images with channels * depth_multiplier
// channels. Variables: depthwise_kernel [height, width, channels, depth_multiplier], bias. The names are
// those of tf.keras.layers.DepthwiseConv2D; tf.layers has no such layer. InvalidArgument, in the builder, for
// other shapes and for sizes below 1.
Output DepthwiseConv2D(GraphBuilder& g, Output x, Window kernel_size, const Activation& activation = nullptr,
                       const DepthwiseConv2DOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

struct SeparableConv2DOptions {
  Window strides = 1;                // height and width must be equal
  std::string padding = "VALID";     // or "SAME"
  std::string data_format = "NHWC";  // or "NCHW"
  int64_t depth_multiplier = 1;      // channels that each channel gives before they are mixed
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::GlorotUniform();
  Initializer pointwise_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
  Regularizer bias_regularizer;
  Partitioner partitioner;  // of all variables
  bool trainable = true;
  absl::string_view name = "separable_conv2d";
};

// The same, mixed: gives images with `filters` channels. Variables: depthwise_kernel, pointwise_kernel
// [1, 1, channels * depth_multiplier, filters], bias [filters]. Without dilations.
Output SeparableConv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation = nullptr, const SeparableConv2DOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
