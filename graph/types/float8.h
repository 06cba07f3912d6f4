// The 8-bit floating types as storage: a tensor has a byte for each element (StoredAs), and Cast goes by way
// of float.
//
// Formats: E5M2 and E4M3FN are OCP's (OFP8 Formats Specification 1.0): the former is a short binary16, the
// latter has no infinities and one NaN of each sign. The FNUZ types (Noune et al., "8-bit Numerical Formats
// for Deep Neural Networks", 2022; E4M3B11FNUZ has a bias of 11) have no infinities and no -0: its byte is
// NaN. Conversions from float round to nearest even; what is too large becomes infinity, or NaN where there
// is none.
#pragma once

#include <cstdint>

#include "graph/types/dtype.h"

namespace weir {

constexpr bool IsFloat8(DType dtype) {
  return dtype >= DType::kFloat8E5m2 && dtype <= DType::kFloat8E5m2Fnuz;
}

// Precondition of both: IsFloat8(dtype).
float Float8ToFloat(DType dtype, uint8_t bits);
uint8_t FloatToFloat8(DType dtype, float value);

}  // namespace weir
