#include "ops/layers/transposed_convolution.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/layers/layer_ends.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

bool IsSize(int64_t size) { return size >= 1 && size <= std::numeric_limits<int32_t>::max(); }

bool AreSizes(const std::vector<int64_t>& sizes) { return std::all_of(sizes.begin(), sizes.end(), IsSize); }

bool AreOnes(const std::vector<int64_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

bool HasChannelsFirst(const TransposedConvolution& c) { return absl::StartsWith(c.data_format, "NC"); }

int ChannelAxis(const TransposedConvolution& c) {
  return HasChannelsFirst(c) ? 1 : static_cast<int>(c.strides.size()) + 1;
}

// Element `axis` of a shape vector.
Output DimOf(GraphBuilder& g, Output shape, int axis, SourceLocation where) {
  return StridedSlice(g, shape, ConstIntegers(g, {axis}, {}, where), ConstIntegers(g, {axis + 1}, {}, where),
                      ConstIntegers(g, {1}, {}, where), {.shrink_axis_mask = 1}, where);
}

// How long side number `side` of the result is: a constant where x's is known, else computed in the step.
// Null when it does not fit into int32.
Output SideOf(GraphBuilder& g, Output x, Output x_shape, const TransposedConvolution& c, int side,
              SourceLocation where) {
  const int axis = side + (HasChannelsFirst(c) ? 2 : 1);
  const int64_t stride = c.strides[side];
  const int64_t overlap = c.padding == "SAME" ? 0 : std::max<int64_t>(c.kernel_size[side] - stride, 0);
  const int64_t known = x.shape().dim(axis);
  if (known != PartialShape::kUnknownDim) {
    int64_t length = 0;
    const bool fits = MultiplyWithoutOverflow(known, stride, &length) &&
                      length <= std::numeric_limits<int32_t>::max() - overlap;
    return fits ? Const(g, static_cast<int32_t>(length + overlap), {}, where) : Output();
  }
  const Output scaled =
      Mul(g, DimOf(g, x_shape, axis, where), Const(g, static_cast<int32_t>(stride), {}, where), {}, where);
  return AddV2(g, scaled, Const(g, static_cast<int32_t>(overlap), {}, where), {}, where);
}

// What is wrong with the arguments; empty when nothing is.
std::string Mistake(const Output& x, const TransposedConvolution& c) {
  const bool x_fits = x.shape().rank() == static_cast<int>(c.strides.size()) + 2 &&
                      x.shape().dim(ChannelAxis(c)) != PartialShape::kUnknownDim;
  if (!x_fits || !IsSize(c.filters) || !AreSizes(c.kernel_size) || !AreSizes(c.strides)) {
    return absl::StrCat("x must be ", c.operand,
                        " with known channels, filters, kernel size and strides at least 1");
  }
  return AreOnes(c.dilations) ? "" : "dilations must be 1";
}

void Refuse(GraphBuilder& g, const Output& x, const TransposedConvolution& c, absl::string_view mistake,
            SourceLocation where) {
  g.SetError(absl::InvalidArgumentError(absl::StrCat(
                 c.layer, " '", g.name_scope(), "': ", mistake, ": x is ", x.shape().ToString(), " (",
                 c.data_format, "), filters is ", c.filters, ", kernel size is ",
                 absl::StrJoin(c.kernel_size, "x"), ", strides are ", absl::StrJoin(c.strides, "x"),
                 ", dilations are ", absl::StrJoin(c.dilations, "x"))),
             where);
}

}  // namespace

TransposedOperands MakeTransposedOperands(GraphBuilder& g, Output x, const TransposedConvolution& convolution,
                                          const WeightOptions& kernel, SourceLocation where) {
  const TransposedConvolution& c = convolution;
  if (!HasInput(g, c.layer, x, where)) return {};
  if (const std::string mistake = Mistake(x, c); !mistake.empty()) {
    Refuse(g, x, c, mistake, where);
    return {};
  }
  std::vector<int64_t> kernel_dims = c.kernel_size;
  kernel_dims.insert(kernel_dims.end(), {c.filters, x.shape().dim(ChannelAxis(c))});
  const Output weight = AddWeight(g, "kernel", x.dtype(), kernel_dims, kernel, where);
  const Output x_shape = ShapeOf(g, x, {}, where);
  std::vector<Output> sizes = {DimOf(g, x_shape, 0, where)};
  for (size_t side = 0; side < c.strides.size(); ++side) {
    sizes.push_back(SideOf(g, x, x_shape, c, static_cast<int>(side), where));
    if (!sizes.back()) {
      Refuse(g, x, c, "the result is too large", where);
      return {};
    }
  }
  sizes.insert(sizes.begin() + ChannelAxis(c), Const(g, static_cast<int32_t>(c.filters), {}, where));
  return {weight, Pack(g, sizes, {}, where)};
}

}  // namespace weir::layers
