// What tensor[begin:end:strides, ...] means: TensorFlow's StridedSlice with its five masks.
// Formula: tensorflow.org/api_docs/python/tf/strided_slice.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"

namespace weir {

struct StridedSliceMasks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ellipsis = 0;
  int64_t new_axis = 0;
  int64_t shrink_axis = 0;
};

// The slice as one range per dimension of the sliced tensor.
struct StridedSlicePlan {
  Dims begins;
  Dims steps;  // 0 where a dimension keeps at most one element
  Dims sizes;
  Shape shape;  // of the result: without shrunk axes, with new ones
  // Of each dimension of the result: the one of the sliced tensor that it is, or kNewAxis.
  absl::InlinedVector<int, 4> sources;
  static constexpr int kNewAxis = -1;
};

// InvalidArgument for specifications of different lengths, two ellipses, a zero stride, more ranges than
// dimensions, or a shrunk axis whose index is out of range.
absl::StatusOr<StridedSlicePlan> PlanStridedSlice(const Shape& input, absl::Span<const int64_t> begin,
                                                  absl::Span<const int64_t> end,
                                                  absl::Span<const int64_t> strides,
                                                  const StridedSliceMasks& masks);

}  // namespace weir
