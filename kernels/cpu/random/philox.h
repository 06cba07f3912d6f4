// The counter-based generator behind TensorFlow's random ops, and the numbers they make of its bits.
//
// Philox 4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011. A 128-bit counter is encrypted under a 64-bit key; any point of the stream is reached in constant
// time. Seeding and the conversions follow TensorFlow (core/lib/random), so that equal seeds give equal
// values. Thread safety: values; use each from one thread.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "graph/types/float16.h"
#include "kernels/host_device.h"

namespace weir {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  Philox() = default;
  WEIR_HOST_DEVICE Philox(uint64_t seed, uint64_t seed2)
      : counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)},
        key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

  // Key and counter as TensorFlow's ops hand them on: one word, and two of which the first is the lower.
  uint64_t key() const { return key_[0] | uint64_t{key_[1]} << 32; }
  std::array<uint64_t, 2> counter() const {
    return {counter_[0] | uint64_t{counter_[1]} << 32, counter_[2] | uint64_t{counter_[3]} << 32};
  }
  WEIR_HOST_DEVICE static Philox FromKeyAndCounter(uint64_t key, std::array<uint64_t, 2> counter) {
    Philox bits(key, counter[1]);
    bits.counter_[0] = static_cast<uint32_t>(counter[0]);
    bits.counter_[1] = static_cast<uint32_t>(counter[0] >> 32);
    return bits;
  }

  // Leaves out `blocks` blocks of four words.
  WEIR_HOST_DEVICE void Skip(uint64_t blocks) {
    const uint64_t low = counter_[0] | uint64_t{counter_[1]} << 32;
    const uint64_t sum = low + blocks;
    counter_[0] = static_cast<uint32_t>(sum);
    counter_[1] = static_cast<uint32_t>(sum >> 32);
    if (sum < low && ++counter_[2] == 0) ++counter_[3];
  }

  WEIR_HOST_DEVICE Block Next() {
    Block block = counter_;
    std::array<uint32_t, 2> key = key_;
    for (int round = 0; round < 10; ++round) {
      block = Round(block, key);
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    Skip(1);
    return block;
  }

 private:
  WEIR_HOST_DEVICE static Block Round(const Block& block, const std::array<uint32_t, 2>& key) {
    const uint64_t a = uint64_t{0xD2511F53u} * block[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * block[2];
    return {static_cast<uint32_t>(b >> 32) ^ block[1] ^ key[0], static_cast<uint32_t>(b),
            static_cast<uint32_t>(a >> 32) ^ block[3] ^ key[1], static_cast<uint32_t>(a)};
  }

  Block counter_ = {};
  std::array<uint32_t, 2> key_ = {};
};

// Uniform in [0, 1): random bits become the mantissa of a number in [1, 2).
WEIR_HOST_DEVICE inline float UniformFloat(uint32_t bits) {
  return std::bit_cast<float>((bits & 0x7fffffu) | 127u << 23) - 1.0f;
}
WEIR_HOST_DEVICE inline double UniformDouble(uint32_t high, uint32_t low) {
  return std::bit_cast<double>((uint64_t{high & 0xfffffu} << 32 | low) | uint64_t{1023} << 52) - 1.0;
}
inline Half UniformHalf(uint32_t bits) {
  return Half(static_cast<float>(Half::FromBits(static_cast<uint16_t>((bits & 0x3ffu) | 15u << 10))) - 1.0f);
}
inline Bfloat16 UniformBfloat16(uint32_t bits) {
  return Bfloat16(static_cast<float>(Bfloat16::FromBits(static_cast<uint16_t>((bits & 0x7fu) | 127u << 7))) -
                  1.0f);
}

// Two independent standard normal numbers of two uniform ones (Box and Muller, 1958). The angle is rounded
// once: TensorFlow's numbers are these to the last bit.
WEIR_HOST_DEVICE inline std::array<float, 2> NormalFloats(uint32_t a, uint32_t b) {
  constexpr float kSmallest = 1.0e-7f;  // keeps the logarithm finite
  const float u = std::fmax(UniformFloat(a), kSmallest);
  const auto angle = static_cast<float>(2.0 * M_PI * UniformFloat(b));
  const float radius = std::sqrt(-2.0f * std::log(u));
  return {std::sin(angle) * radius, std::cos(angle) * radius};
}
WEIR_HOST_DEVICE inline std::array<double, 2> NormalDoubles(uint32_t a0, uint32_t a1, uint32_t b0,
                                                            uint32_t b1) {
  constexpr double kSmallest = 1.0e-7;
  const double u = std::fmax(UniformDouble(a0, a1), kSmallest);
  const double angle = 2.0 * M_PI * UniformDouble(b0, b1);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {std::sin(angle) * radius, std::cos(angle) * radius};
}

}  // namespace weir
