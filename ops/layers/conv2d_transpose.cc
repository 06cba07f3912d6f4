#include "ops/layers/conv2d_transpose.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

bool IsSize(int64_t size) { return size >= 1 && size <= std::numeric_limits<int32_t>::max(); }

bool AreSizes(const Window& window) { return IsSize(window.height) && IsSize(window.width); }

// Element `axis` of a shape vector.
Output DimOf(GraphBuilder& g, Output shape, int axis, SourceLocation where) {
  return StridedSlice(g, shape, ConstIntegers(g, {axis}, {}, where), ConstIntegers(g, {axis + 1}, {}, where),
                      ConstIntegers(g, {1}, {}, where), {.shrink_axis_mask = 1}, where);
}

// How long one side of the result is: a number where x's side is known, else computed in the step. -1 when it
// does not fit into int32.
struct Side {
  int64_t length = 0;
  Output computed;
};

Side SideOf(GraphBuilder& g, Output x, Output x_shape, int axis, int64_t kernel, int64_t stride, bool same,
            SourceLocation where) {
  const int64_t overlap = same ? 0 : std::max<int64_t>(kernel - stride, 0);
  const int64_t known = x.shape().dim(axis);
  if (known != PartialShape::kUnknownDim) {
    int64_t length = 0;
    const bool fits = MultiplyWithoutOverflow(known, stride, &length) &&
                      length <= std::numeric_limits<int32_t>::max() - overlap;
    return {fits ? length + overlap : -1, {}};
  }
  const Output scaled =
      Mul(g, DimOf(g, x_shape, axis, where), Const(g, static_cast<int32_t>(stride), {}, where), {}, where);
  return {0, AddV2(g, scaled, Const(g, static_cast<int32_t>(overlap), {}, where), {}, where)};
}

}  // namespace

Output Conv2DTranspose(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation, const Conv2DTransposeOptions& options,
                       SourceLocation where) {
  if (!x) return {};
  const auto scope = g.NameScope(options.name);
  const bool channels_first = options.data_format == "NCHW";
  const int channel_axis = channels_first ? 1 : 3;
  const bool x_fits = x.shape().rank() == 4 && x.shape().dim(channel_axis) != PartialShape::kUnknownDim;
  const auto refuse = [&](absl::string_view what) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "Conv2DTranspose '", g.name_scope(), "': ", what, ": x is ", x.shape().ToString(), " (",
            options.data_format, "), filters is ", filters, ", kernel size is ", kernel_size.height, "x",
            kernel_size.width, ", strides are ", options.strides.height, "x", options.strides.width)),
        where);
    return Output();
  };
  if (!x_fits || !IsSize(filters) || !AreSizes(kernel_size) || !AreSizes(options.strides)) {
    return refuse("x must be images with known channels, filters, kernel size and strides at least 1");
  }
  const Output kernel = AddWeight(
      g, "kernel", x.dtype(), {kernel_size.height, kernel_size.width, filters, x.shape().dim(channel_axis)},
      KernelOf(options), where);
  const Output x_shape = ShapeOf(g, x, {}, where);
  const int height_axis = channels_first ? 2 : 1;
  const bool same = options.padding == "SAME";
  const Side height =
      SideOf(g, x, x_shape, height_axis, kernel_size.height, options.strides.height, same, where);
  const Side width =
      SideOf(g, x, x_shape, height_axis + 1, kernel_size.width, options.strides.width, same, where);
  if (height.length < 0 || width.length < 0) return refuse("the result is too large");
  const auto output_of = [&](const Side& side) {
    return side.computed ? side.computed : Const(g, static_cast<int32_t>(side.length), {}, where);
  };
  const Output batch = DimOf(g, x_shape, 0, where);
  std::vector<Output> sizes = {batch, output_of(height), output_of(width)};
  sizes.insert(sizes.begin() + channel_axis, Const(g, static_cast<int32_t>(filters), {}, where));
  Output y = Conv2DBackpropInput(g, Pack(g, sizes, {}, where), kernel, x,
                                 options.strides.PerDimension(options.data_format), options.padding,
                                 {.data_format = options.data_format}, where);
  if (options.use_bias) {
    y = AddBias(g, y, filters, options.data_format, BiasOf(options), where);
  }
  return activation ? activation(g, y, {}, where) : y;
}

}  // namespace weir::layers
