// Adds up what the ranks of a group contribute, always in the same order.
//
// Order: a pairwise tree over ranks, ((0 + 1) + (2 + 3)) + 4 for five of them. So the result is a function of
// the contributions, not of the order in which they arrive.
//
// Pure functions; the contributions may lie anywhere in memory that is aligned for their dtype.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/types/dtype.h"
#include "kernels/communicator.h"

namespace weir {

// InvalidArgument for a dtype that cannot be reduced: only bfloat16, half, float, double, int32 and int64
// can.
absl::Status CheckReducible(DType dtype);

// output[i] = (inputs[0][i] op inputs[1][i] op ...) / divisor for i in [0, count). 16-bit numbers are reduced
// in float and rounded once; integers are divided towards zero. `output` may be one of the inputs.
// Preconditions: CheckReducible(dtype); at least one input; divisor > 0; the reduction is elementwise (not
// kAdasum).
void ReduceContributions(DType dtype, Reduction reduction, absl::Span<const char* const> inputs,
                         int64_t divisor, int64_t count, char* output);

// Rounds floats or doubles to half or bfloat16, and back. Preconditions: these dtypes.
void ToWire(DType dtype, const void* source, DType wire, int64_t count, void* target);
void FromWire(DType wire, const void* source, DType dtype, int64_t count, void* target);

// The dot products of two vectors, and of each with itself, in double.
struct Dots {
  double ab = 0, aa = 0, bb = 0;
};
Dots DotsOf(const float* a, const float* b, int64_t count);
Dots DotsOf(const double* a, const double* b, int64_t count);

// a = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b (Reduction::kAdasum). A vector of zeros changes
// nothing.
void CombineByAdasum(const Dots& dots, const float* b, int64_t count, float* a);
void CombineByAdasum(const Dots& dots, const double* b, int64_t count, double* a);

}  // namespace weir
