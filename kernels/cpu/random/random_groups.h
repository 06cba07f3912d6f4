// From the bits of a Philox stream to numbers, on the CPU and on GPUs.
//
// One block of Philox gives a group of outputs: four of 32 bits or less, two of 64. Group g of a run uses
// block g after the run's start, whatever thread computes it. TruncatedNormal needs a varying number of
// blocks, so each of its groups has 256 of them per four outputs to itself. These are TensorFlow's choices:
// they make equal seeds give equal values in every step. kCost is in nanoseconds of one output.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/random/philox.h"
#include "kernels/host_device.h"

namespace weir {

inline constexpr uint64_t kReservedBlocksPerOutput = 256;

template <typename T>
inline constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;  // outputs of one block

template <typename T>
struct Uniform {
  WEIR_HOST_DEVICE void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    if constexpr (std::is_same_v<T, double>) {
      group[0] = UniformDouble(block[0], block[1]);
      group[1] = UniformDouble(block[2], block[3]);
    } else {
      for (int i = 0; i < 4; ++i) {
        if constexpr (std::is_same_v<T, float>)
          group[i] = UniformFloat(block[i]);
        else if constexpr (std::is_same_v<T, Half>)
          group[i] = UniformHalf(block[i]);
        else
          group[i] = UniformBfloat16(block[i]);
      }
    }
  }
  static constexpr double kCost = 4;
};

template <typename T>
struct Normal {
  WEIR_HOST_DEVICE void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    if constexpr (std::is_same_v<T, double>) {
      const auto pair = NormalDoubles(block[0], block[1], block[2], block[3]);
      group[0] = pair[0];
      group[1] = pair[1];
    } else {
      for (int i = 0; i < 4; i += 2) {
        const auto pair = NormalFloats(block[i], block[i + 1]);
        group[i] = T(pair[0]);
        group[i + 1] = T(pair[1]);
      }
    }
  }
  static constexpr double kCost = 15;
};

// The words of a stream one by one. Borrows the stream.
class Words {
 public:
  WEIR_HOST_DEVICE explicit Words(Philox& bits) : bits_(bits) {}
  // Leaves out `count` words. Precondition: none was taken.
  WEIR_HOST_DEVICE void Skip(uint64_t count) {
    bits_.Skip(count / 4);
    for (uint64_t i = 0; i < count % 4; ++i) Next();
  }
  WEIR_HOST_DEVICE uint32_t Next() {
    if (used_ == 4) {
      block_ = bits_.Next();
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox& bits_;
  Philox::Block block_;
  int used_ = 4;
};

// Normal numbers of magnitude below 2; others are thrown away.
template <typename T>
struct TruncatedNormal {
  static constexpr uint64_t kBlocksPerGroup = kGroup<T> * kReservedBlocksPerOutput / 4;

  WEIR_HOST_DEVICE void operator()(Philox& bits, T* group) const {
    constexpr double kLimit = 2;
    Words words(bits);
    int count = 0;
    while (count < kGroup<T>) {
      for (const auto value : NextPair(words)) {
        if (count < kGroup<T> && std::abs(value) < kLimit) group[count++] = T(value);
      }
    }
  }
  static constexpr double kCost = 25;

 private:
  WEIR_HOST_DEVICE static auto NextPair(Words& words) {
    const uint32_t a = words.Next(), b = words.Next();
    if constexpr (std::is_same_v<T, double>) {
      const uint32_t c = words.Next(), d = words.Next();
      return NormalDoubles(a, b, c, d);
    } else {
      return NormalFloats(a, b);
    }
  }
};

// The i-th word of a block, or pair of words, as an unsigned integer of the size of T.
template <typename T>
WEIR_HOST_DEVICE std::make_unsigned_t<T> IntegerOf(const Philox::Block& block, int i) {
  if constexpr (sizeof(T) == 8) {
    return uint64_t{block[2 * i]} | uint64_t{block[2 * i + 1]} << 32;
  } else {
    return block[i];
  }
}

// Integers in [low, low + range).
template <typename T>
struct UniformInt {
  using Unsigned = std::make_unsigned_t<T>;
  Unsigned low;
  Unsigned range;

  WEIR_HOST_DEVICE void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    for (int i = 0; i < kGroup<T>; ++i) {
      group[i] = static_cast<T>(low + IntegerOf<T>(block, i) % range);
    }
  }
  static constexpr double kCost = 6;
};

// All integers.
template <typename T>
struct UniformFullInt {
  WEIR_HOST_DEVICE void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    for (int i = 0; i < kGroup<T>; ++i) group[i] = static_cast<T>(IntegerOf<T>(block, i));
  }
  static constexpr double kCost = 4;
};

}  // namespace weir
