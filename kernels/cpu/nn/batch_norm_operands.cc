#include "kernels/cpu/nn/batch_norm_operands.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status CheckVector(absl::string_view name, const Tensor& tensor, int64_t channels, const Tensor& x) {
  if (tensor.shape() == Shape({channels})) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be [", channels,
                                                 "], one for each channel of x, ", x.shape().ToString(),
                                                 ", is ", tensor.shape().ToString()));
}

}  // namespace

absl::StatusOr<NormalizedChannels> ReadNormalizedChannels(const Shape& x, const std::string& data_format) {
  const bool has_depth = data_format == "NDHWC" || data_format == "NCDHW";
  if (x.rank() != (has_depth ? 5 : 4)) {
    return absl::InvalidArgumentError(absl::StrCat("x must have ", has_depth ? 5 : 4, " dimensions for ",
                                                   data_format, ", is ", x.ToString()));
  }
  const int axis = data_format[1] == 'C' ? 1 : x.rank() - 1;
  NormalizedChannels dims;
  dims.channels = x.dim(axis);
  for (int i = 0; i < axis; ++i) dims.outer *= x.dim(i);
  for (int i = axis + 1; i < x.rank(); ++i) dims.inner *= x.dim(i);
  dims.is_last = axis != 1;
  return dims;
}

absl::Status CheckBatchNorm(const KernelContext& context, int64_t channels, bool uses_averages) {
  const Tensor& x = context.input(0);
  WEIR_RETURN_IF_ERROR(CheckVector("scale", context.input(1), channels, x));
  WEIR_RETURN_IF_ERROR(CheckVector("offset", context.input(2), channels, x));
  for (int i = 3; i < 5; ++i) {
    const absl::string_view name = i == 3 ? "mean" : "variance";
    if (uses_averages) {
      WEIR_RETURN_IF_ERROR(CheckVector(name, context.input(i), channels, x));
    } else if (context.input(i).shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be a vector, is ", context.input(i).shape().ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBatchNormGrad(const KernelContext& context, int64_t channels) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  if (dy.shape() != x.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat("y_backprop is ", dy.shape().ToString(), " but x is ", x.shape().ToString()));
  }
  const absl::string_view names[] = {"scale", "reserve_space_1", "reserve_space_2"};
  for (int i = 0; i < 3; ++i) {
    WEIR_RETURN_IF_ERROR(CheckVector(names[i], context.input(2 + i), channels, x));
  }
  return absl::OkStatus();
}

}  // namespace weir
