// The shape of a Python-style slice, as TensorFlow's StridedSlice defines it
// (tensorflow.org/api_docs/python/tf/strided_slice).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/shape.h"

namespace weir {

// Bit i speaks of position i of the specification.
struct SliceMasks {
  int64_t begin = 0;        // begin[i] was left out
  int64_t end = 0;          // end[i] was left out
  int64_t ellipsis = 0;     // "...": as many whole axes as are missing; at most one
  int64_t new_axis = 0;     // a new dimension of 1; no axis of the input
  int64_t shrink_axis = 0;  // a plain index: the axis goes away
};

// begin or end may be unknown (nullopt), the strides must be known; all have one element per position.
// Unknown rank when the input's is. InvalidArgument for a stride of 0, a second ellipsis, more positions than
// axes, an index outside its axis.
absl::StatusOr<PartialShape> InferStridedSlice(const PartialShape& input,
                                               const std::optional<std::vector<int64_t>>& begin,
                                               const std::optional<std::vector<int64_t>>& end,
                                               const std::vector<int64_t>& strides, const SliceMasks& masks);

}  // namespace weir
