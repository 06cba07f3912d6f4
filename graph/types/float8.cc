#include "graph/types/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir {
namespace {

constexpr uint8_t kSign = 0x80;

// A byte without its sign is an exponent above a mantissa.
struct Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;   // finite number
  uint8_t overflow;  // what is larger: infinity or NaN
  uint8_t nan;       // of either sign; kSign where there is no -0
  bool has_negative_zero() const { return nan != kSign; }
};

const Format& FormatOf(DType dtype) {
  static constexpr Format kE5m2 = {2, 15, 0x7b, 0x7c, 0x7e}, kE4m3fn = {3, 7, 0x7e, 0x7f, 0x7f},
                          kE4m3Fnuz = {3, 8, 0x7f, kSign, kSign}, kE4m3b11Fnuz = {3, 11, 0x7f, kSign, kSign},
                          kE5m2Fnuz = {2, 16, 0x7f, kSign, kSign};
  switch (dtype) {
    case DType::kFloat8E5m2:
      return kE5m2;
    case DType::kFloat8E4m3fn:
      return kE4m3fn;
    case DType::kFloat8E4m3Fnuz:
      return kE4m3Fnuz;
    case DType::kFloat8E4m3b11Fnuz:
      return kE4m3b11Fnuz;
    default:
      return kE5m2Fnuz;
  }
}

}  // namespace

float Float8ToFloat(DType dtype, uint8_t bits) {
  const Format& format = FormatOf(dtype);
  if (bits == kSign && !format.has_negative_zero()) return std::numeric_limits<float>::quiet_NaN();
  const int magnitude = bits & ~kSign, unit = 1 << format.mantissa_bits;
  const int exponent = magnitude >> format.mantissa_bits, mantissa = magnitude & (unit - 1);
  float value;
  if (magnitude > format.largest) {
    const bool is_infinite = magnitude == format.overflow && format.overflow != format.nan;
    value = is_infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(unit + mantissa), exponent - format.bias - format.mantissa_bits);
  }
  return (bits & kSign) != 0 ? -value : value;
}

uint8_t FloatToFloat8(DType dtype, float value) {
  const Format& format = FormatOf(dtype);
  const uint8_t sign = std::signbit(value) ? kSign : 0;
  if (std::isnan(value)) return sign | format.nan;
  if (std::isinf(value)) return sign | format.overflow;
  if (value == 0) return format.has_negative_zero() ? sign : 0;
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  // In units of the last place; exact but for the rounding itself.
  const auto units =
      static_cast<int>(std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent)));
  const int magnitude = ((exponent + format.bias - 1) << format.mantissa_bits) + units;
  if (magnitude > format.largest) return sign | format.overflow;
  return magnitude == 0 && !format.has_negative_zero() ? 0 : static_cast<uint8_t>(sign | magnitude);
}

}  // namespace weir
