// Hashes of texts that somebody who does not know the key cannot steer: what StringToHashBucketStrong and
// SparseCrossHashed put strings into buckets by.
//
// Functions and a class without state that changes; safe from any thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weir {

// The last bytes of a text, fewer than eight, as a little-endian number.
inline uint64_t TailOf(absl::string_view text) {
  uint64_t tail = 0;
  const size_t begin = text.size() / 8 * 8;
  for (size_t i = begin; i < text.size(); ++i) {
    tail |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i - begin));
  }
  return tail;
}

// Eight bytes from `position` on, likewise.
inline uint64_t WordAt(absl::string_view text, size_t position) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(text[position + i]);
  return word;
}

// SipHash-2-4 (J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012).
class SipHash {
 public:
  SipHash(uint64_t key0, uint64_t key1)
      : v0_(key0 ^ 0x736f6d6570736575),
        v1_(key1 ^ 0x646f72616e646f6d),
        v2_(key0 ^ 0x6c7967656e657261),
        v3_(key1 ^ 0x7465646279746573) {}

  uint64_t Of(absl::string_view text) const {
    SipHash state = *this;
    for (size_t i = 0; i + 8 <= text.size(); i += 8) state.Take(WordAt(text, i));
    state.Take(uint64_t{text.size()} << 56 | TailOf(text));
    state.v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) state.Round();
    return state.v0_ ^ state.v1_ ^ state.v2_ ^ state.v3_;
  }

 private:
  static uint64_t Rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

  void Take(uint64_t word) {
    v3_ ^= word;
    Round();
    Round();
    v0_ ^= word;
  }

  void Round() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = Rotate(v1_, 13) ^ v0_;
    v3_ = Rotate(v3_, 16) ^ v2_;
    v0_ = Rotate(v0_, 32) + v3_;
    v2_ += v1_;
    v1_ = Rotate(v1_, 17) ^ v2_;
    v3_ = Rotate(v3_, 21) ^ v0_;
    v2_ = Rotate(v2_, 32);
  }

  uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace weir
