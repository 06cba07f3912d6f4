// The dimension of a reshape that -1 leaves open.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "graph/types/shape.h"

namespace weir {

// What the one -1 of `dims` stands for when a tensor of shape `from` gets these dimensions; nullopt where
// nothing fits. Beside a 0 any number would do: as in TensorFlow it is what the dimensions of `from` that are
// not 0 leave, rounded down ([0,28,28] as [0,-1] is [0,784]).
inline std::optional<int64_t> OpenDim(const Shape& from, absl::Span<const int64_t> dims) {
  constexpr int64_t kOpen = -1;
  int64_t known = 1, elements = 1;
  bool has_zero = false;
  for (const int64_t dim : dims) {
    has_zero |= dim == 0;
    if (dim != 0 && dim != kOpen && !MultiplyWithoutOverflow(known, dim, &known)) return std::nullopt;
  }
  if (has_zero && from.num_elements() != 0) return std::nullopt;
  if (!has_zero) {
    if (from.num_elements() % known != 0) return std::nullopt;
    return from.num_elements() / known;
  }
  for (const int64_t dim : from.dims()) elements *= dim == 0 ? 1 : dim;
  return elements / known;
}

}  // namespace weir
