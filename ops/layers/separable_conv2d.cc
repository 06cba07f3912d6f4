#include "ops/layers/separable_conv2d.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

struct Images {
  Output x;
  int64_t channels = 0;
};

// The convolution of each channel of x by itself; null after an error, which begins with `layer`.
template <typename Options>
Images ConvolveChannels(GraphBuilder& g, absl::string_view layer, Output x, Window kernel_size,
                        const Options& options, SourceLocation where) {
  const int channel_axis = options.data_format == "NCHW" ? 1 : 3;
  const bool x_fits = x.shape().rank() == 4 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim;
  const int64_t multiplier = options.depth_multiplier;
  int64_t channels = 0;
  if (!x_fits || kernel_size.height < 1 || kernel_size.width < 1 || multiplier < 1 ||
      !MultiplyWithoutOverflow(x.shape().dim(channel_axis), multiplier, &channels)) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(layer, " '", g.name_scope(), "': x must be images with known channels (",
                                options.data_format, "), kernel size and depth_multiplier at least 1: x is ",
                                x.shape().ToString(), ", kernel size is ", kernel_size.height, "x",
                                kernel_size.width, ", depth_multiplier is ", multiplier)),
               where);
    return {};
  }
  const WeightOptions weight_options = {options.depthwise_initializer, options.depthwise_regularizer,
                                        options.trainable, options.partitioner};
  const Output kernel =
      AddWeight(g, "depthwise_kernel", x.dtype(),
                {kernel_size.height, kernel_size.width, x.shape().dim(channel_axis), multiplier},
                weight_options, where);
  const Output y = DepthwiseConv2dNative(g, x, kernel, options.strides.PerDimension(options.data_format),
                                         options.padding, {.data_format = options.data_format}, where);
  return {y, channels};
}

template <typename Options>
Output Finish(GraphBuilder& g, absl::string_view layer, const Images& images, const Activation& activation,
              const Options& options, SourceLocation where) {
  Output y = images.x;
  if (options.use_bias) {
    y = AddBias(g, y, images.channels, options.data_format, BiasOf(options), where);
  }
  return Activate(g, layer, y, activation, where);
}

}  // namespace

Output DepthwiseConv2D(GraphBuilder& g, Output x, Window kernel_size, const Activation& activation,
                       const DepthwiseConv2DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "DepthwiseConv2D", x, where)) return {};
  const Images separate = ConvolveChannels(g, "DepthwiseConv2D", x, kernel_size, options, where);
  return Finish(g, "DepthwiseConv2D", separate, activation, options, where);
}

Output SeparableConv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation, const SeparableConv2DOptions& options,
                       SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "SeparableConv2D", x, where)) return {};
  if (filters < 1) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("SeparableConv2D '", g.name_scope(),
                                                       "': filters must be at least 1, is ", filters)),
               where);
    return {};
  }
  const Images separate = ConvolveChannels(g, "SeparableConv2D", x, kernel_size, options, where);
  if (!separate.x) return {};
  const WeightOptions weight_options = {options.pointwise_initializer, options.pointwise_regularizer,
                                        options.trainable, options.partitioner};
  const Output kernel =
      AddWeight(g, "pointwise_kernel", x.dtype(), {1, 1, separate.channels, filters}, weight_options, where);
  const Output mixed = weir::Conv2D(g, separate.x, kernel, Window(1).PerDimension(options.data_format),
                                    "VALID", {.data_format = options.data_format}, where);
  return Finish(g, "SeparableConv2D", {mixed, filters}, activation, options, where);
}

}  // namespace weir::layers
