// An allocator in front of another one that counts, limits and (for fault tests) fails on request.
//
// Thread safety: all methods. A buffer's bytes count until its last reference goes. Buffers may outlive the
// allocator, as a fetched tensor or a variable outlives the device it was made on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "graph/types/allocator.h"

namespace weir {

class MeteredAllocator final : public Allocator {
 public:
  // `limit_bytes` <= 0: unlimited. Borrows `source`.
  explicit MeteredAllocator(Allocator& source, int64_t limit_bytes = 0)
      : source_(source), limit_(limit_bytes) {}

  // Null also when the limit would be passed.
  RefPtr<Buffer> Allocate(size_t num_bytes) override;
  int64_t num_bytes_in_use() const override { return in_use_->load(std::memory_order_relaxed); }

  int64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  int64_t num_allocations() const { return num_allocations_.load(std::memory_order_relaxed); }

  // The nth allocation from now (1 is the next) and all after it find no memory; 0 takes the order back.
  void FailAllocationForTesting(int64_t nth) { fail_in_.store(nth, std::memory_order_relaxed); }

 private:
  class MeteredBuffer;
  bool Reserve(int64_t num_bytes);

  Allocator& source_;
  const int64_t limit_;
  const std::shared_ptr<std::atomic<int64_t>> in_use_ = std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> num_allocations_{0};
  std::atomic<int64_t> fail_in_{0};
};

}  // namespace weir
