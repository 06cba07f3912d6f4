// What users choose of a convolution, transposed or not, whatever its number of dimensions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ops/initializers.h"
#include "ops/layers/window.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

// Sizes: a number for each dimension that the window slides along.
template <typename Sizes>
struct ConvolutionOptions {
  Sizes strides = 1;
  Sizes dilations = 1;
  std::string padding = "VALID";  // or "SAME"
  std::string data_format;        // "" has channels last; the layer says what others there are
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Partitioner partitioner;  // of the kernel and of the bias
  bool trainable = true;
  absl::string_view name;  // "" is the layer's: "conv1d", "conv2d_transpose"...
};

using Conv1DOptions = ConvolutionOptions<int64_t>;
using Conv2DOptions = ConvolutionOptions<Window>;
using Conv3DOptions = ConvolutionOptions<Window3D>;

}  // namespace weir::layers
