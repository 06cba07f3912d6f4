#include "kernels/cpu/nn/convolution_operands.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"

namespace weir {
namespace {

absl::StatusOr<Shape> SizesInput(KernelContext& context, int input, int rank, absl::string_view name) {
  const Tensor& sizes = context.input(input);
  if (sizes.shape() != Shape({rank})) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have ", rank, " elements, is ", sizes.ToString()));
  }
  return ReadShape(sizes, name);
}

absl::Status CheckOutputGradient(const ConvGeometry& geometry, const Shape& gradient) {
  if (gradient == geometry.OutputShape()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("out_backprop must be ", geometry.OutputShape().ToString(),
                                                 " for the input ", geometry.InputShape().ToString(),
                                                 " and the filter ", geometry.FilterShape().ToString(),
                                                 ", is ", gradient.ToString()));
}

// A depthwise filter, [height, width, channels, multiplier], is in memory as
// that of a grouped convolution where each channel is a group of its own:
// [height, width, 1, channels * multiplier].
absl::StatusOr<ConvGeometry> GeometryOf(const WindowAttrs& attrs, FilterKind kind, const Shape& input,
                                        const Shape& filter) {
  if (kind == FilterKind::kAllChannels) {
    WEIR_ASSIGN_OR_RETURN(const ConvGeometry geometry, attrs.Convolution(input, filter));
    if (geometry.groups() == 1) return geometry;
    return absl::InvalidArgumentError(absl::StrCat("channels differ: the input is ", input.ToString(),
                                                   ", the filter is ", filter.ToString()));
  }
  if (kind == FilterKind::kGroups || filter.rank() != 4) return attrs.Convolution(input, filter);
  int64_t channels;
  if (__builtin_mul_overflow(filter.dim(2), filter.dim(3), &channels)) {
    return absl::InvalidArgumentError(absl::StrCat("the filter ", filter.ToString(), " is too large"));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape grouped, Shape::FromDims({filter.dim(0), filter.dim(1), 1, channels}));
  WEIR_ASSIGN_OR_RETURN(const ConvGeometry geometry, attrs.Convolution(input, grouped));
  if (geometry.windows.channels == filter.dim(2)) return geometry;
  return absl::InvalidArgumentError(absl::StrCat("channels differ: the input ", input.ToString(), " has ",
                                                 geometry.windows.channels, ", the filter is ",
                                                 filter.ToString()));
}

}  // namespace

absl::StatusOr<ConvOperands> ReadConvOperands(KernelContext& context, const WindowAttrs& attrs,
                                              FilterKind kind, ConvDirection direction) {
  ConvOperands operands;
  const auto set_geometry = [&](const Shape& input, const Shape& filter) {
    absl::StatusOr<ConvGeometry> geometry = GeometryOf(attrs, kind, input, filter);
    if (geometry.ok()) operands.geometry = *geometry;
    return geometry.status();
  };
  if (direction == ConvDirection::kOutput) {
    WEIR_RETURN_IF_ERROR(set_geometry(context.input(0).shape(), context.input(1).shape()));
    operands.first = 0;
    operands.second = 1;
    operands.result = operands.geometry.OutputShape();
    return operands;
  }
  if (direction == ConvDirection::kInputGradient) {
    WEIR_ASSIGN_OR_RETURN(operands.result, SizesInput(context, 0, attrs.rank(), "input_sizes"));
    WEIR_RETURN_IF_ERROR(set_geometry(operands.result, context.input(1).shape()));
    operands.first = 2;
    operands.second = 1;
  } else {
    WEIR_ASSIGN_OR_RETURN(operands.result, SizesInput(context, 1, attrs.rank(), "filter_sizes"));
    WEIR_RETURN_IF_ERROR(set_geometry(context.input(0).shape(), operands.result));
    operands.first = 0;
    operands.second = 2;
  }
  WEIR_RETURN_IF_ERROR(CheckOutputGradient(operands.geometry, context.input(2).shape()));
  return operands;
}

}  // namespace weir
