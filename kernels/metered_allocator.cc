#include "kernels/metered_allocator.h"

#include <utility>

namespace weir {

class MeteredAllocator::MeteredBuffer final : public Buffer {
 public:
  MeteredBuffer(RefPtr<Buffer> source, std::shared_ptr<std::atomic<int64_t>> in_use)
      : Buffer(source->data(), source->num_bytes()), source_(std::move(source)), in_use_(std::move(in_use)) {}
  ~MeteredBuffer() override { in_use_->fetch_sub(num_bytes(), std::memory_order_relaxed); }

 private:
  const RefPtr<Buffer> source_;
  const std::shared_ptr<std::atomic<int64_t>> in_use_;
};

bool MeteredAllocator::Reserve(int64_t num_bytes) {
  const int64_t in_use = in_use_->fetch_add(num_bytes, std::memory_order_relaxed) + num_bytes;
  if (limit_ > 0 && in_use > limit_) {
    in_use_->fetch_sub(num_bytes, std::memory_order_relaxed);
    return false;
  }
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (in_use > peak && !peak_.compare_exchange_weak(peak, in_use, std::memory_order_relaxed)) {
  }
  return true;
}

RefPtr<Buffer> MeteredAllocator::Allocate(size_t num_bytes) {
  num_allocations_.fetch_add(1, std::memory_order_relaxed);
  int64_t fail_in = fail_in_.load(std::memory_order_relaxed);
  while (fail_in > 1 && !fail_in_.compare_exchange_weak(fail_in, fail_in - 1, std::memory_order_relaxed)) {
  }
  if (fail_in == 1) return nullptr;
  if (num_bytes > (size_t{1} << 62) || !Reserve(static_cast<int64_t>(num_bytes))) return nullptr;
  RefPtr<Buffer> buffer = source_.Allocate(num_bytes);
  if (!buffer) {
    in_use_->fetch_sub(num_bytes, std::memory_order_relaxed);
    return nullptr;
  }
  return MakeRef<MeteredBuffer>(std::move(buffer), in_use_);
}

}  // namespace weir
