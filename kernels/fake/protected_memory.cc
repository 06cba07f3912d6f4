#include "kernels/fake/protected_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace weir {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kLargeBytes = 1 << 20;

// Whole pages, a power of two of them: what was given back fits again.
size_t BlockBytes(size_t num_bytes) { return std::bit_ceil(std::max(num_bytes, kPageBytes)); }

}  // namespace

class ProtectedMemory::ProtectedBuffer final : public Buffer {
 public:
  ProtectedBuffer(std::shared_ptr<ProtectedMemory> memory, char* block, size_t block_bytes, size_t num_bytes)
      : Buffer(block, num_bytes), memory_(std::move(memory)), block_bytes_(block_bytes) {}
  ~ProtectedBuffer() override { memory_->GiveBlockBack(static_cast<char*>(data()), block_bytes_); }

 private:
  const std::shared_ptr<ProtectedMemory> memory_;
  const size_t block_bytes_;
};

ProtectedMemory::~ProtectedMemory() {
  absl::MutexLock lock(&mutex_);
  if (begin_ != nullptr) munmap(begin_, kCapacity);
}

RefPtr<Buffer> ProtectedMemory::Allocate(size_t num_bytes) {
  if (num_bytes > kCapacity) return nullptr;
  const size_t block_bytes = BlockBytes(num_bytes);
  char* const block = TakeBlock(block_bytes);
  if (block == nullptr) return nullptr;
  num_bytes_in_use_.fetch_add(static_cast<int64_t>(block_bytes), std::memory_order_relaxed);
  return MakeRef<ProtectedBuffer>(shared_from_this(), block, block_bytes, num_bytes);
}

char* ProtectedMemory::TakeBlock(size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  if (std::vector<char*>& free = free_[num_bytes]; !free.empty()) {
    char* const block = free.back();
    free.pop_back();
    return block;
  }
  if (begin_ == nullptr) {
    void* const reserved =
        mmap(nullptr, kCapacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return nullptr;
    begin_ = end_ = static_cast<char*>(reserved);
  }
  if (num_bytes > static_cast<size_t>(begin_ + kCapacity - end_)) return nullptr;
  char* const block = end_;
  end_ += num_bytes;
  if (num_openings_ > 0) Protect(block, end_, /*is_open=*/true);
  return block;
}

void ProtectedMemory::GiveBlockBack(char* block, size_t num_bytes) {
  num_bytes_in_use_.fetch_sub(static_cast<int64_t>(num_bytes), std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  // A large one is given to the system: blocks of one size do not become blocks of another.
  if (num_bytes >= kLargeBytes) madvise(block, num_bytes, MADV_DONTNEED);
  free_[num_bytes].push_back(block);
}

bool ProtectedMemory::Contains(const void* address) const {
  absl::MutexLock lock(&mutex_);
  const auto* const byte = static_cast<const char*>(address);
  return begin_ != nullptr && begin_ <= byte && byte < end_;
}

void ProtectedMemory::Open() {
  absl::MutexLock lock(&mutex_);
  if (num_openings_++ == 0) Protect(begin_, end_, /*is_open=*/true);
}

void ProtectedMemory::Close() {
  absl::MutexLock lock(&mutex_);
  if (--num_openings_ == 0) Protect(begin_, end_, /*is_open=*/false);
}

// Who opens memory is about to use it: there is no way on.
void ProtectedMemory::Protect(char* from, char* to, bool is_open) const {
  if (from == to) return;
  if (mprotect(from, to - from, is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

}  // namespace weir
