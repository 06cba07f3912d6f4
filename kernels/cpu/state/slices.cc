#include "kernels/cpu/state/slices.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/element_position.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/with_indices.h"

namespace weir {
namespace {

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

absl::Status NotInside(const Tensor& indices, int64_t slice, int depth, const Shape& shape) {
  std::vector<int64_t> found;
  for (int d = 0; d < depth; ++d) found.push_back(IntegerAt(indices, slice * depth + d));
  const auto outer = indices.shape().dims().subspan(0, indices.shape().rank() - 1);
  return absl::InvalidArgumentError(absl::StrCat("indices", ElementPosition(outer, slice), " = [",
                                                 absl::StrJoin(found, ","), "] does not index into shape ",
                                                 shape.ToString(), " of the variable"));
}

}  // namespace

absl::StatusOr<Slices> SlicesOfRows(KernelContext& context, const Shape& shape, const Tensor& indices,
                                    int64_t batch_dims) {
  WEIR_ASSIGN_OR_RETURN(const GatheredSlices rows, PlanRows(shape, indices.shape(), batch_dims));
  WEIR_RETURN_IF_ERROR(CheckIndices("indices", indices, rows.limit));
  Slices slices{.inner = rows.inner};
  slices.dims.assign(rows.shape.dims().begin(), rows.shape.dims().end());
  const int64_t count = rows.inner == 0 ? 0 : indices.num_elements();
  WEIR_ASSIGN_OR_RETURN(slices.offsets, context.AllocateTemporary(DType::kInt64, Shape({count})));
  int64_t* const offsets = slices.offsets.flat<int64_t>().data();
  WithIndices(indices, [&](const auto* values) {
    for (int64_t begin = 0, base = 0; begin < count; begin += rows.count, base += rows.limit) {
      for (int64_t i = begin; i < begin + rows.count; ++i) {
        offsets[i] = (base + values[i]) * slices.inner;
      }
    }
  });
  return slices;
}

absl::StatusOr<Slices> SlicesAtCoordinates(KernelContext& context, const Shape& shape, const Tensor& indices,
                                           BadIndices bad) {
  const int rank = indices.shape().rank();
  if (rank == 0) return absl::InvalidArgumentError("indices must be at least a vector, is a scalar");
  if (indices.shape().dim(rank - 1) > shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.shape().ToString(), " have ",
                                                   indices.shape().dim(rank - 1),
                                                   " coordinates, the variable is ", shape.ToString()));
  }
  const int depth = static_cast<int>(indices.shape().dim(rank - 1));
  const auto dims = shape.dims(), index_dims = indices.shape().dims().subspan(0, rank - 1);
  Slices slices{.inner = Product(dims.subspan(depth))};
  slices.dims.assign(index_dims.begin(), index_dims.end());
  slices.dims.insert(slices.dims.end(), dims.begin() + depth, dims.end());
  WEIR_ASSIGN_OR_RETURN(const Shape of_offsets, Shape::FromDims(index_dims));
  const int64_t count = of_offsets.num_elements();
  WEIR_ASSIGN_OR_RETURN(slices.offsets, context.AllocateTemporary(DType::kInt64, Shape({count})));
  int64_t* const offsets = slices.offsets.flat<int64_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = 0;
    bool is_inside = true;
    for (int d = 0; d < depth; ++d) {
      const int64_t index = IntegerAt(indices, i * depth + d);
      is_inside = is_inside && index >= 0 && index < dims[d];
      if (is_inside) row = row * dims[d] + index;
    }
    // No coordinates name the whole variable, which may be empty.
    if (!is_inside && bad == BadIndices::kError) return NotInside(indices, i, depth, shape);
    offsets[i] = is_inside ? row * slices.inner : kIgnored;
  }
  return slices;
}

}  // namespace weir
