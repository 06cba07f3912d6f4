// Products of dense row-major matrices: c[m,n] = op(a) op(b), where op transposes or not.
//
// c must not overlap a or b. Thread safety: pure functions; the work is split on `threads` where that pays.
// An error when the step is over before the work is: then parts of c are missing.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cpu/timely_loop.h"

namespace weir {

struct ProductShape {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool transpose_a = false;  // a is [k,m] in memory, not [m,k]
  bool transpose_b = false;  // b is [n,k] in memory, not [k,n]
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// Single precision, by oneDNN's sgemm. Reason for sgemm and not its matmul primitive: it reaches the same
// speed (on an AVX-512 machine 109 GFLOP/s a core for [32,784] x [784,300]), starts in 0.4 microseconds and
// needs no preparation per shape.
absl::Status MultiplyFloat(const TimelyThreads& threads, const ProductShape& shape, const float* a,
                           const float* b, float* c);

// The same; each piece of the product is handed to `finish` by the thread that has just computed it.
using FinishPiece = absl::FunctionRef<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;
absl::Status MultiplyFloat(const TimelyThreads& threads, const ProductShape& shape, const float* a,
                           const float* b, float* c, FinishPiece finish);

// Double precision, by loops over tiles in registers and cache: two to five times as fast as MultiplyPlain.
absl::Status MultiplyDouble(const TimelyThreads& threads, const ProductShape& shape, const double* a,
                            const double* b, double* c);

// Any type with + and *; plain loops. Integers wrap around.
template <typename T>
absl::Status MultiplyPlain(const TimelyThreads& threads, const ProductShape& shape, const T* a, const T* b,
                           T* c);

}  // namespace weir
