// The order of Fisher and Yates, with TensorFlow's numbers: each place in turn gets one of those that are
// left.
//
// Functions without state; safe from any thread. An error is the reason of a cancellation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/random/distributions.h"

namespace weir {

inline constexpr size_t kPlacesBetweenQuestions = size_t{1} << 16;

// A number below `count`: of one word, or of two where one cannot name all of them. Precondition: count > 0.
inline uint64_t DrawBelow(uint64_t count, Words& words) {
  const uint32_t word = words.Next();
  if (count <= UINT32_MAX) return word % static_cast<uint32_t>(count);
  return (uint64_t{word} << 32 | words.Next()) % count;
}

inline absl::Status Shuffle(Philox& bits, absl::Span<int64_t> order, const Cancellation& cancellation) {
  Words words(bits);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    if (i % kPlacesBetweenQuestions == 0 && cancellation.is_cancelled()) return cancellation.reason();
    std::swap(order[i], order[i + DrawBelow(order.size() - i, words)]);
  }
  return absl::OkStatus();
}

}  // namespace weir
