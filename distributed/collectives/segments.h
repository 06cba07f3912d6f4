// How the bytes of a tensor are cut into the parts that travel: all of one size but the last.
//
// Values; pure functions. No tensor is without a segment: an empty one has an empty one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

struct Segments {
  int64_t num_bytes = 0;
  int64_t segment_bytes = 1;

  int64_t count() const { return std::max<int64_t>(1, (num_bytes + segment_bytes - 1) / segment_bytes); }
  int64_t offset(int64_t segment) const { return segment * segment_bytes; }
  int64_t size(int64_t segment) const { return std::min(segment_bytes, num_bytes - offset(segment)); }
};

}  // namespace weir
