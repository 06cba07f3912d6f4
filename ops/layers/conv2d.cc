#include "ops/layers/conv2d.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size, const Activation& activation,
              const ConvolutionOptions& options, SourceLocation where) {
  if (!x) return {};
  const auto scope = g.NameScope(options.name);
  const int channel_axis = options.data_format == "NCHW" ? 1 : 3;
  const bool x_fits = x.shape().rank() == 4 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim;
  if (!x_fits || filters < 1 || kernel_size.height < 1 || kernel_size.width < 1) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "Conv2D '", g.name_scope(), "': x must be images with known channels (", options.data_format,
            "), filters and kernel size at least 1: x is ", x.shape().ToString(), ", filters is ", filters,
            ", kernel size is ", kernel_size.height, "x", kernel_size.width)),
        where);
    return {};
  }
  const ModelVariable kernel = MakeWeight(
      g, "kernel", x.dtype(), {kernel_size.height, kernel_size.width, x.shape().dim(channel_axis), filters},
      {options.kernel_initializer, options.kernel_regularizer, options.trainable}, where);
  Output y = weir::Conv2D(
      g, x, kernel.value, options.strides.PerDimension(options.data_format), options.padding,
      {.data_format = options.data_format, .dilations = options.dilations.PerDimension(options.data_format)},
      where);
  if (options.use_bias) {
    y = AddBias(g, y, filters, options.data_format,
                {options.bias_initializer, options.bias_regularizer, options.trainable}, where);
  }
  return activation ? activation(g, y, {}, where) : y;
}

}  // namespace weir::layers
