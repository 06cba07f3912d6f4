// What kernels ask of indices that choose slices of tensors, and what they plan with them. The CPU's kernels
// and those for GPUs call these, so that a mistake has one text wherever it is found.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace weir {

// InvalidArgument "indices[0,3] = 7 is not in [0, 2)" unless every one of `indices`, int16, int32 or int64 in
// the host's memory, is in [0, limit).
absl::Status CheckIndices(absl::string_view name, const Tensor& indices, int64_t limit);

// What GatherV2 gives: [batches, outer, count, inner], of params [batches, outer, limit, inner] and indices
// [batches, count]. Where nothing is given only the limit counts, and inner is 0.
struct GatheredSlices {
  Shape shape;
  int axis = 0;
  int batch_rank = 0;
  int64_t batches = 1, outer = 1, limit = 0, count = 0, inner = 1;
};
// `axis`: one integer in the host's memory. InvalidArgument when shapes and attrs do not fit.
absl::StatusOr<GatheredSlices> PlanGather(const Shape& params, const Shape& indices, const Tensor& axis,
                                          int64_t batch_dims);
// The same for an axis that is one of the params, not before the batch dimensions, which are equal in both.
absl::StatusOr<GatheredSlices> PlanGatherAlong(int axis, const Shape& params, const Shape& indices,
                                               int batch_rank);

// The sums of segments of `data`, whose first dimensions are those of the ids. InvalidArgument when shapes do
// not fit.
absl::StatusOr<Shape> ShapeOfSegments(const Shape& data, const Shape& ids, int64_t num_segments);
// InvalidArgument "segment_ids[0,3] = 7 is not in [0, 2)" unless all are below `num_segments`; those of
// negative ones are dropped.
absl::Status CheckSegmentIds(const Tensor& ids, int64_t num_segments);

}  // namespace weir
