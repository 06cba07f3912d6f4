// Numpy broadcasting of several operands, as nested loops with strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

// One operand of loops with short rows, written out for a block of rows at a time: one call of an elementwise
// loop then serves them all. An operand that is as large as the output is read where it lies. For plain
// elements of 1, 2, 4, 8 or 16 bytes. Not thread-safe: each thread has its own.
class SpreadOperand {
 public:
  // A block has up to `rows` rows. `loops` and `data` must outlive this.
  SpreadOperand(const BroadcastLoops& loops, int operand, const void* data, size_t element_size,
                int64_t rows);

  // Writes the rows [begin, end) of the innermost loop and returns where the first of them begins; valid
  // until the next call. Precondition: not more than `rows` of them.
  const void* Spread(int64_t begin, int64_t end);

 private:
  const BroadcastLoops& loops_;
  const int operand_;
  const char* const data_;
  const size_t element_size_;
  const bool is_whole_;
  const bool has_equal_rows_;  // a row that was written once stays right
  int64_t num_written_ = 0;
  std::vector<char> block_;
};

}  // namespace weir
