#include "ops/layers/conv2d.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size, const Activation& activation,
              const Conv2DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "conv2d" : options.name);
  if (!HasInput(g, "Conv2D", x, where)) return {};
  const std::string format = options.data_format.empty() ? "NHWC" : options.data_format;
  const int channel_axis = format == "NCHW" ? 1 : 3;
  const bool x_fits = x.shape().rank() == 4 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim;
  if (!x_fits || filters < 1 || kernel_size.height < 1 || kernel_size.width < 1) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "Conv2D '", g.name_scope(), "': x must be images with known channels (", format,
                   "), filters and kernel size at least 1: x is ", x.shape().ToString(), ", filters is ",
                   filters, ", kernel size is ", kernel_size.height, "x", kernel_size.width)),
               where);
    return {};
  }
  const Output kernel = AddWeight(
      g, "kernel", x.dtype(), {kernel_size.height, kernel_size.width, x.shape().dim(channel_axis), filters},
      KernelOf(options), where);
  Output y =
      weir::Conv2D(g, x, kernel, options.strides.PerDimension(format), options.padding,
                   {.data_format = format, .dilations = options.dilations.PerDimension(format)}, where);
  if (options.use_bias) {
    y = AddBias(g, y, filters, format, BiasOf(options), where);
  }
  return Activate(g, "Conv2D", y, activation, where);
}

}  // namespace weir::layers
