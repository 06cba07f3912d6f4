// Numpy broadcasting of several operands, as nested loops with strides.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"

namespace weir {

// The loops that visit `output` in row-major order; dimensions that no operand tells apart are one.
struct BroadcastLoops {
  static constexpr int kMaxOperands = 3;

  Shape output;
  Dims sizes;                  // of the loops, outermost first; at least one
  Dims strides[kMaxOperands];  // of each operand per loop, in elements; 0 where it is repeated

  int64_t inner_size() const { return sizes.back(); }
  int64_t num_rows() const { return inner_size() == 0 ? 0 : output.num_elements() / inner_size(); }
};

// InvalidArgument "Incompatible shapes: [2,3] vs. [4]" when a dimension differs and none is 1.
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Shape* const> operands);

// Precondition: every operand broadcasts to `output`.
BroadcastLoops MakeBroadcastLoops(const Shape& output, absl::Span<const Shape* const> operands);

// Calls row(r, offsets) for the rows [begin, end) of the innermost loop: offsets[k] is where operand k's row
// begins.
void ForEachRow(const BroadcastLoops& loops, int num_operands, int64_t begin, int64_t end,
                absl::FunctionRef<void(int64_t row, const int64_t* offsets)> row);

}  // namespace weir
