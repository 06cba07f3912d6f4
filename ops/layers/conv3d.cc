#include "ops/layers/conv3d.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv3D(GraphBuilder& g, Output x, int64_t filters, Window3D kernel_size, const Activation& activation,
              const Conv3DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "conv3d" : options.name);
  if (!HasInput(g, "Conv3D", x, where)) return {};
  const bool x_fits = x.shape().rank() == 5 && x.shape().dim(4) != PartialShape::kUnknownDim;
  const bool layout_fits = options.data_format.empty() || options.data_format == "NDHWC";
  if (!x_fits || !layout_fits || filters < 1 || kernel_size.depth < 1 || kernel_size.height < 1 ||
      kernel_size.width < 1) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "Conv3D '", g.name_scope(),
                   "': x must be volumes with known channels (NDHWC), filters and "
                   "kernel size at least 1: x is ",
                   x.shape().ToString(), " (", options.data_format, "), filters is ", filters,
                   ", kernel size is ", kernel_size.depth, "x", kernel_size.height, "x", kernel_size.width)),
               where);
    return {};
  }
  const Output kernel =
      AddWeight(g, "kernel", x.dtype(),
                {kernel_size.depth, kernel_size.height, kernel_size.width, x.shape().dim(4), filters},
                KernelOf(options), where);
  Output y = weir::Conv3D(g, x, kernel, options.strides.PerDimension(), options.padding,
                          {.dilations = options.dilations.PerDimension()}, where);
  if (options.use_bias) y = AddBias(g, y, filters, "NHWC", BiasOf(options), where);
  return Activate(g, "Conv3D", y, activation, where);
}

}  // namespace weir::layers
