#include "examples/shuffled_order.h"

#include <algorithm>
#include <numeric>

namespace weir::examples {

ShuffledOrder::ShuffledOrder(int64_t count, int64_t batch_size, uint64_t seed)
    : batch_size_(std::min(batch_size, count)), random_(seed), order_(count) {
  std::iota(order_.begin(), order_.end(), 0);
  std::shuffle(order_.begin(), order_.end(), random_);
}

absl::Span<const int32_t> ShuffledOrder::Next() {
  if (next_ + batch_size_ > static_cast<int64_t>(order_.size())) {
    std::shuffle(order_.begin(), order_.end(), random_);
    next_ = 0;
  }
  next_ += batch_size_;
  return absl::MakeConstSpan(order_).subspan(next_ - batch_size_, batch_size_);
}

}  // namespace weir::examples
