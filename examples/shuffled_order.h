// Which examples come into the next batch: all of them once per epoch, in a new random order each time.
//
// A last batch that would be smaller than the others is left out; the next epoch draws anew. Thread safety:
// none.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"

namespace weir::examples {

class ShuffledOrder {
 public:
  // Batches of min(batch_size, count) of the numbers 0 to count - 1; count and batch_size are at least 1.
  ShuffledOrder(int64_t count, int64_t batch_size, uint64_t seed);

  // Valid until the next call.
  absl::Span<const int32_t> Next();

 private:
  const int64_t batch_size_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  int64_t next_ = 0;
};

}  // namespace weir::examples
