// activation(convolution of sequences with the kernel + bias)
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct Conv1DOptions {
  int64_t stride = 1;
  int64_t dilation = 1;
  std::string padding = "VALID";    // or "SAME"
  std::string data_format = "NWC";  // or "NCW"
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  bool trainable = true;
  absl::string_view name = "conv1d";
};

// x: sequences [batch, length, channels], channels known. Gives sequences with `filters` channels. Variables:
// kernel [kernel_size, channels, filters], bias [filters]. InvalidArgument, in the builder, for other shapes
// and for sizes below 1.
Output Conv1D(GraphBuilder& g, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation = nullptr, const Conv1DOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
