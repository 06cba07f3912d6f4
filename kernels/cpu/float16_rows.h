// Converts arrays between the 16-bit floating types and float, as Half and Bfloat16 do element by element
// (only the bits of a NaN may differ), and what needs no conversion. Compiled once per instruction set.
//
// Thread safety: pure functions. Arrays do not overlap.
#pragma once

#include <cstdint>

#include "graph/types/dtype.h"
#include "graph/types/float16.h"

namespace weir {

void ToFloats(const Half* source, float* target, int64_t count);
void ToFloats(const Bfloat16* source, float* target, int64_t count);
void FromFloats(const float* source, Half* target, int64_t count);
void FromFloats(const float* source, Bfloat16* target, int64_t count);

// The same where the type is known at run time. Precondition: dtype is kHalf or kBfloat16.
void ToFloats(DType dtype, const void* source, float* target, int64_t count);
void FromFloats(DType dtype, const float* source, void* target, int64_t count);

// Makes 0 of negative numbers, in place, as Relu does: NaN and -0 stay.
void Rectify(Half* x, int64_t count);
void Rectify(Bfloat16* x, int64_t count);
// z is x where y is positive, else 0: the gradient of Relu.
void KeepWherePositive(const Half* x, const Half* y, Half* z, int64_t count);
void KeepWherePositive(const Bfloat16* x, const Bfloat16* y, Bfloat16* z, int64_t count);

}  // namespace weir
