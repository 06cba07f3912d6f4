#include "ops/layers/conv1d.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/layers/window.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv1D(GraphBuilder& g, Output x, int64_t filters, int64_t kernel_size, const Activation& activation,
              const Conv1DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "conv1d" : options.name);
  if (!HasInput(g, "Conv1D", x, where)) return {};
  const bool channels_first = options.data_format == "NCW";
  const int channel_axis = channels_first ? 1 : 2;
  const bool x_fits = x.shape().rank() == 3 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim;
  if (!x_fits || filters < 1 || kernel_size < 1 ||
      (!channels_first && !options.data_format.empty() && options.data_format != "NWC")) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "Conv1D '", g.name_scope(),
                   "': x must be sequences with known channels (NWC or NCW), filters and kernel size at "
                   "least 1: x is ",
                   x.shape().ToString(), " (", options.data_format, "), filters is ", filters,
                   ", kernel size is ", kernel_size)),
               where);
    return {};
  }
  const Output kernel = AddWeight(g, "kernel", x.dtype(), {kernel_size, x.shape().dim(channel_axis), filters},
                                  KernelOf(options), where);
  // An image of height 1.
  const std::string format = channels_first ? "NCHW" : "NHWC";
  const int height_axis = channels_first ? 2 : 1;
  const Output images = ExpandDims(g, x, Const(g, height_axis, {}, where), {}, where);
  const Output window = ExpandDims(g, kernel, Const(g, 0, {}, where), {}, where);
  Output y = weir::Conv2D(
      g, images, window, Window(1, options.strides).PerDimension(format), options.padding,
      {.data_format = format, .dilations = Window(1, options.dilations).PerDimension(format)}, where);
  y = Squeeze(g, y, {.squeeze_dims = {height_axis}}, where);
  if (options.use_bias) {
    y = AddBias(g, y, filters, format, BiasOf(options), where);
  }
  return Activate(g, "Conv1D", y, activation, where);
}

}  // namespace weir::layers
