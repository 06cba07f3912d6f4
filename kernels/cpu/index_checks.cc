#include "kernels/cpu/index_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/element_position.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/with_indices.h"

namespace weir {
namespace {

int64_t Product(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

absl::Status NotInRange(absl::string_view name, const Tensor& indices, int64_t position, int64_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(name, ElementPosition(indices.shape().dims(), position),
                                                 " = ", IntegerAt(indices, position), " is not in [0, ",
                                                 limit, ")"));
}

}  // namespace

absl::Status CheckIndices(absl::string_view name, const Tensor& indices, int64_t limit) {
  const int64_t count = indices.num_elements();
  const int64_t bad = WithIndices(indices, [&](const auto* values) {
    int64_t i = 0;
    while (i < count && static_cast<uint64_t>(values[i]) < static_cast<uint64_t>(limit)) ++i;
    return i;
  });
  return bad == count ? absl::OkStatus() : NotInRange(name, indices, bad, limit);
}

absl::Status CheckSegmentIds(const Tensor& ids, int64_t num_segments) {
  const int64_t count = ids.num_elements();
  const int64_t bad = WithIndices(ids, [&](const auto* values) {
    return std::find_if(values, values + count, [&](int64_t id) { return id >= num_segments; }) - values;
  });
  return bad == count ? absl::OkStatus() : NotInRange("segment_ids", ids, bad, num_segments);
}

absl::StatusOr<Shape> ShapeOfSegments(const Shape& data, const Shape& ids, int64_t num_segments) {
  if (ids.rank() > data.rank() || ids.dims() != data.dims().subspan(0, ids.rank())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.shape = ", data.ToString(), " does not start with segment_ids.shape = ", ids.ToString()));
  }
  if (num_segments < 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_segments must be non-negative, is ", num_segments));
  }
  Dims dims = {num_segments};
  dims.insert(dims.end(), data.dims().begin() + ids.rank(), data.dims().end());
  return Shape::FromDims(dims);
}

absl::StatusOr<GatheredSlices> PlanGather(const Shape& params, const Shape& indices, const Tensor& axis,
                                          int64_t batch_dims) {
  if (params.rank() == 0) return absl::InvalidArgumentError("params must be at least 1 dimensional");
  WEIR_ASSIGN_OR_RETURN(const int along, ReadAxis(axis, params.rank(), "axis"));
  const int64_t batch_rank = batch_dims < 0 ? batch_dims + indices.rank() : batch_dims;
  if (batch_rank < 0 || batch_rank > along || batch_rank > indices.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("batch_dims = ", batch_dims, " does not fit axis ", along,
                                                   ", params ", params.ToString(), " and indices ",
                                                   indices.ToString()));
  }
  for (int i = 0; i < batch_rank; ++i) {
    if (params.dim(i) == indices.dim(i)) continue;
    return absl::InvalidArgumentError(absl::StrCat("params.shape[", i, "] = ", params.dim(i),
                                                   " should be indices.shape[", i, "] = ", indices.dim(i)));
  }
  return PlanGatherAlong(along, params, indices, static_cast<int>(batch_rank));
}

absl::StatusOr<GatheredSlices> PlanGatherAlong(int axis, const Shape& params, const Shape& indices,
                                               int batch_rank) {
  GatheredSlices slices = {.shape = Shape(), .axis = axis, .batch_rank = batch_rank};
  const auto params_dims = params.dims(), indices_dims = indices.dims();
  Dims dims(params_dims.begin(), params_dims.begin() + axis);
  dims.insert(dims.end(), indices_dims.begin() + batch_rank, indices_dims.end());
  dims.insert(dims.end(), params_dims.begin() + axis + 1, params_dims.end());
  WEIR_ASSIGN_OR_RETURN(slices.shape, Shape::FromDims(dims));
  slices.limit = params_dims[axis];
  if (slices.shape.num_elements() == 0) {  // then other dimensions may be of any size
    slices.inner = 0;
    return slices;
  }
  slices.batches = Product(params_dims.subspan(0, batch_rank));
  slices.outer = Product(params_dims.subspan(batch_rank, axis - batch_rank));
  slices.count = Product(indices_dims.subspan(batch_rank));
  slices.inner = Product(params_dims.subspan(axis + 1));
  return slices;
}

}  // namespace weir
