// The inner loops of elementwise ops, found by op and dtype once, when a kernel is made.
//
// Loops exist per instruction set for the dtypes that models compute in (float, double, int32, int64, bool)
// and once for the rare ones. half and bfloat16 have none: kernels convert blocks to float and back.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/dtype.h"

namespace weir {

// How the operands of a binary loop are read: element by element, or one of them again and again.
enum class Operands { kBoth, kScalarX, kScalarY };

// z[i] = op(x[i], y[i]) for n elements. False when the op refuses an operand (division by zero); then z is
// undefined. z may be x or y itself, but must not overlap them otherwise.
using BinaryLoop = bool (*)(const void* x, const void* y, void* z, int64_t n, Operands operands);
using UnaryLoop = bool (*)(const void* x, void* y, int64_t n);

template <typename Loop>
struct LoopRow {
  const char* op;
  DType dtype;         // of the operands
  DType output_dtype;  // the same, or kBool
  Loop loop;
  float nanoseconds;  // of one element, roughly: for ParallelFor
};

using BinaryRow = LoopRow<BinaryLoop>;
using UnaryRow = LoopRow<UnaryLoop>;

// Tables for the instruction set of this processor, and those that serve all.
absl::Span<const BinaryRow> BinaryLoops();
absl::Span<const BinaryRow> RareBinaryLoops();
absl::Span<const UnaryRow> UnaryLoops();
absl::Span<const UnaryRow> RareUnaryLoops();

// Null when there is none.
const BinaryRow* FindBinaryLoop(absl::string_view op, DType dtype);
const UnaryRow* FindUnaryLoop(absl::string_view op, DType dtype);

}  // namespace weir
