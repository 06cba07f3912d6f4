// The two 16-bit floating types as storage: arithmetic converts to float.
//
// Formats: IEEE 754-2008 binary16 (Half) and the upper half of a binary32 (Bfloat16). Conversions from float
// round to nearest even; NaN stays NaN, overflow becomes infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace weir {

class Bfloat16 {
 public:
  Bfloat16() = default;
  explicit Bfloat16(float value) : bits_(FromFloat(value)) {}
  static Bfloat16 FromBits(uint16_t bits) {
    Bfloat16 result;
    result.bits_ = bits;
    return result;
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits_} << 16); }
  uint16_t bits() const { return bits_; }

 private:
  static uint16_t FromFloat(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
  }
  uint16_t bits_ = 0;
};

class Half {
 public:
  Half() = default;
  explicit Half(float value) : bits_(FromFloat(value)) {}
  static Half FromBits(uint16_t bits) {
    Half result;
    result.bits_ = bits;
    return result;
  }
  operator float() const { return ToFloat(bits_); }
  uint16_t bits() const { return bits_; }

 private:
  static uint16_t FromFloat(float value);
  static float ToFloat(uint16_t bits);
  uint16_t bits_ = 0;
};

}  // namespace weir
