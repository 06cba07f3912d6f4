#include "kernels/cpu/state/row_indices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::StatusOr<GatheredSlices> PlanRows(const Shape& variable, const Shape& indices, int64_t batch_dims) {
  const auto dims = variable.dims(), index_dims = indices.dims();
  if (batch_dims < 0 || batch_dims >= variable.rank() || batch_dims > indices.rank() ||
      index_dims.subspan(0, batch_dims) != dims.subspan(0, batch_dims)) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices ", indices.ToString(), " cannot choose slices of a variable ",
                     variable.ToString(), " with ", batch_dims, " batch dimensions"));
  }
  return PlanGatherAlong(static_cast<int>(batch_dims), variable, indices, static_cast<int>(batch_dims));
}

absl::Status CheckHasRows(const Shape& variable) {
  if (variable.rank() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the variable must have at least one dimension, is a scalar");
}

absl::Status CheckSliceUpdates(const Tensor& variable, absl::string_view name,
                               absl::Span<const int64_t> slices, const Tensor& updates, bool allows_scalar) {
  if (allows_scalar && updates.shape().is_scalar()) return absl::OkStatus();
  if (updates.shape().dims() == slices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("updates must be [", absl::StrJoin(slices, ","),
                                                 "] to change slices of variable '", name, "', which is ",
                                                 TypeString(variable.dtype(), variable.shape()), ", is ",
                                                 TypeString(updates.dtype(), updates.shape())));
}

absl::Status CheckRowGradient(const Tensor& variable, absl::string_view name, const Tensor& gradient,
                              const Shape& indices) {
  if (indices.rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("indices must be a vector, is ", indices.ToString()));
  }
  const auto rows = gradient.shape().dims(), dims = variable.shape().dims();
  const bool fits = variable.dtype() == gradient.dtype() && !dims.empty() && rows.size() == dims.size() &&
                    rows[0] == indices.dim(0) && rows.subspan(1) == dims.subspan(1);
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the gradient is ", TypeString(gradient.dtype(), gradient.shape()), " for ", indices.dim(0),
      " rows of variable '", name, "', which is ", TypeString(variable.dtype(), variable.shape())));
}

}  // namespace weir
