#include "kernels/cuda/caching_allocator.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/human_bytes.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/segment_heap.h"

namespace weir {
namespace {

// Small buffers have segments of their own: a few that live long would otherwise cut up the large ones.
constexpr size_t kMostOfSmall = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
// Middle ones share segments; one that is larger than this gets its own, in steps of kSmallSegment.
constexpr size_t kMostOfMiddle = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;

constexpr size_t kHoldersNamed = 5;

size_t SegmentFor(size_t num_bytes) {
  if (num_bytes <= kMostOfSmall) return kSmallSegment;
  if (num_bytes <= kMostOfMiddle) return kMiddleSegment;
  return (num_bytes + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
}

}  // namespace

// A buffer and, after its life, a place for the next one: making them anew would cost as much as finding the
// memory.
class CachingAllocator::CachedBuffer final : public Buffer {
 public:
  CachedBuffer() : Buffer(nullptr, 0) {}

  void Begin(std::shared_ptr<Core> core, SegmentHeap* heap, SegmentHeap::Block* block, size_t num_bytes) {
    core_ = std::move(core);
    heap_ = heap;
    block_ = block;
    data_ = block == nullptr ? nullptr : reinterpret_cast<void*>(block->address);
    num_bytes_ = num_bytes;
    ResetCount();
  }

 private:
  friend class Core;
  void Release() override;

  std::shared_ptr<Core> core_;  // while somebody has the buffer
  SegmentHeap* heap_ = nullptr;
  SegmentHeap::Block* block_ = nullptr;
};

// What buffers need as long as one of them lives.
class CachingAllocator::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(CudaApi& api, int device, int64_t limit)
      : api_(api),
        device_(device),
        limit_(limit > 0 ? static_cast<size_t>(limit) : SegmentHeap::kMostBytes) {}
  explicit Core(std::shared_ptr<Core> parent) : Core(parent->api_, parent->device_, 0) {
    parent_ = std::move(parent);
  }
  ~Core() {
    absl::MutexLock lock(&mutex_);
    // An error here is that of a lost device, which has said so elsewhere.
    for (SegmentHeap* heap : {&small_, &large_}) {
      for (const uintptr_t segment : heap->Segments()) FreeSegment(segment).IgnoreError();
    }
    for (CachedBuffer* buffer : spare_) delete buffer;
  }

  absl::StatusOr<RefPtr<Buffer>> Get(size_t num_bytes) {
    absl::MutexLock lock(&mutex_);
    SegmentHeap* heap = num_bytes <= kMostOfSmall ? &small_ : &large_;
    SegmentHeap::Block* block = nullptr;
    if (num_bytes > 0) {
      block = heap->Allocate(num_bytes);
      if (block == nullptr) {
        WEIR_ASSIGN_OR_RETURN(std::tie(heap, block), FindRoom(heap, num_bytes));
      }
      in_use_ += block->num_bytes;
      peak_ = std::max(peak_, in_use_);
    }
    CachedBuffer* const buffer = NewBuffer();
    buffer->Begin(shared_from_this(), heap, block, num_bytes);
    return RefPtr<Buffer>(buffer);
  }

  void Return(CachedBuffer* buffer) {
    absl::MutexLock lock(&mutex_);
    if (buffer->block_ != nullptr) {
      in_use_ -= buffer->block_->num_bytes;
      buffer->heap_->Free(buffer->block_);
    }
    spare_.push_back(buffer);
  }

  absl::Status Trim() {
    absl::MutexLock lock(&mutex_);
    return parent_ == nullptr ? GiveBackEmpty() : absl::OkStatus();
  }

  int64_t in_use() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int64_t>(in_use_);
  }
  int64_t reserved() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int64_t>(ReservedLocked());
  }
  int64_t peak() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int64_t>(peak_);
  }

 private:
  using Room = std::pair<SegmentHeap*, SegmentHeap::Block*>;

  static void* ToPointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

  CachedBuffer* NewBuffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (spare_.empty()) return new CachedBuffer();
    CachedBuffer* const buffer = spare_.back();
    spare_.pop_back();
    return buffer;
  }

  size_t ReservedLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return small_.num_segment_bytes() + large_.num_segment_bytes();
  }

  absl::StatusOr<uintptr_t> AllocateSegment(size_t num_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (parent_ == nullptr) {
      WEIR_ASSIGN_OR_RETURN(void* const address, api_.Allocate(device_, num_bytes));
      return reinterpret_cast<uintptr_t>(address);
    }
    WEIR_ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, parent_->Get(num_bytes));
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    of_parent_[address] = std::move(buffer);
    return address;
  }
  absl::Status FreeSegment(uintptr_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (parent_ == nullptr) return api_.Free(device_, ToPointer(address));
    of_parent_.erase(address);
    return absl::OkStatus();
  }

  absl::StatusOr<Room> FindRoom(SegmentHeap* heap, size_t num_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ok when the heap has got a segment for that many bytes; ResourceExhausted when neither limit nor CUDA let
  // it.
  absl::Status Grow(SegmentHeap* heap, size_t num_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GiveBackEmpty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WhyNot(size_t num_bytes, const absl::Status& status) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  CudaApi& api_;
  const int device_;
  const size_t limit_;
  std::shared_ptr<Core> parent_;  // of a pool
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uintptr_t, RefPtr<Buffer>> of_parent_ ABSL_GUARDED_BY(mutex_);  // segments of a pool
  SegmentHeap small_ ABSL_GUARDED_BY(mutex_);
  SegmentHeap large_ ABSL_GUARDED_BY(mutex_);
  std::vector<CachedBuffer*> spare_ ABSL_GUARDED_BY(mutex_);
  size_t in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
};

void CachingAllocator::CachedBuffer::Release() {
  // The allocator may go with its last buffer.
  const std::shared_ptr<Core> core = std::move(core_);
  core->Return(this);
}

// Where a block for the bytes is to be had when no piece of the heap is large enough.
absl::StatusOr<CachingAllocator::Core::Room> CachingAllocator::Core::FindRoom(SegmentHeap* heap,
                                                                              size_t num_bytes) {
  absl::Status status = Grow(heap, num_bytes);
  if (absl::IsResourceExhausted(status) && parent_ == nullptr) {
    WEIR_RETURN_IF_ERROR(GiveBackEmpty());
    status = Grow(heap, num_bytes);
  }
  if (status.ok()) return Room{heap, heap->Allocate(num_bytes)};
  if (!absl::IsResourceExhausted(status)) return status;
  // It may be cut from a segment of the other kind rather than fail.
  SegmentHeap* const other = heap == &small_ ? &large_ : &small_;
  if (SegmentHeap::Block* const block = other->Allocate(num_bytes)) return Room{other, block};
  return absl::ResourceExhaustedError(WhyNot(num_bytes, status));
}

absl::Status CachingAllocator::Core::Grow(SegmentHeap* heap, size_t num_bytes) {
  const size_t wanted = SegmentHeap::RoundUp(num_bytes);
  const size_t left = (limit_ - std::min(limit_, ReservedLocked())) / SegmentHeap::kUnit * SegmentHeap::kUnit;
  if (wanted > left) return absl::ResourceExhaustedError("");
  absl::Status status;
  // Where CUDA has no room for a whole segment, it may have some for this.
  for (const size_t size : {std::min(SegmentFor(wanted), left), wanted}) {
    const absl::StatusOr<uintptr_t> address = AllocateSegment(size);
    if (address.ok()) {
      heap->AddSegment(*address, size);
      return absl::OkStatus();
    }
    status = address.status();
    if (!absl::IsResourceExhausted(status)) return status;
  }
  return status;
}

absl::Status CachingAllocator::Core::GiveBackEmpty() {
  absl::Status status;
  for (SegmentHeap* heap : {&small_, &large_}) {
    for (const auto& [segment, num_bytes] : heap->TakeEmptySegments()) {
      status.Update(FreeSegment(segment));
    }
  }
  return status;
}

std::string CachingAllocator::Core::WhyNot(size_t num_bytes, const absl::Status& status) const {
  std::vector<std::pair<size_t, int64_t>> holders = small_.LargestInUse(kHoldersNamed);
  for (const auto& holder : large_.LargestInUse(kHoldersNamed)) holders.push_back(holder);
  std::sort(holders.rbegin(), holders.rend());
  holders.resize(std::min(holders.size(), kHoldersNamed));
  std::string text = absl::StrCat(
      "out of memory on GPU ", device_, ": ", HumanBytes(num_bytes), " asked for, ", HumanBytes(in_use_),
      " in use", limit_ < SegmentHeap::kMostBytes ? absl::StrCat(" of at most ", HumanBytes(limit_)) : "",
      ", the largest free piece has ", HumanBytes(std::max(small_.LargestFree(), large_.LargestFree())));
  for (const auto& [size, count] : holders) {
    absl::StrAppend(&text, size == holders.front().first ? "; the biggest buffers: " : ", ", count, " of ",
                    HumanBytes(size));
  }
  if (!status.message().empty()) absl::StrAppend(&text, " (", status.message(), ")");
  return text;
}

CachingAllocator::CachingAllocator(CudaApi& api, int device, int64_t limit)
    : core_(std::make_shared<Core>(api, device, limit)) {}

std::unique_ptr<CachingAllocator> CachingAllocator::MakePool() const {
  return std::unique_ptr<CachingAllocator>(new CachingAllocator(std::make_shared<Core>(core_)));
}

CachingAllocator::~CachingAllocator() = default;

RefPtr<Buffer> CachingAllocator::Allocate(size_t num_bytes) {
  absl::StatusOr<RefPtr<Buffer>> buffer = Get(num_bytes);
  return buffer.ok() ? *std::move(buffer) : nullptr;
}

absl::StatusOr<RefPtr<Buffer>> CachingAllocator::Get(size_t num_bytes) { return core_->Get(num_bytes); }

int64_t CachingAllocator::num_bytes_in_use() const { return core_->in_use(); }
int64_t CachingAllocator::num_bytes_reserved() const { return core_->reserved(); }
int64_t CachingAllocator::peak_bytes_in_use() const { return core_->peak(); }
absl::Status CachingAllocator::Trim() { return core_->Trim(); }

}  // namespace weir
