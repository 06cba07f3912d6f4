// Implementation notes. Sizes are rounded up to a class (powers of two and the three quarters between); each
// class has a small per-thread stack of free buffers, so that allocate and free on one thread touch no shared
// state, and a shared stack under a mutex that the per-thread stacks overflow into. Blocks of kHugePageBytes
// and more are aligned for 2 MiB pages. When too much is idle in the shared stacks, the class that was not
// asked for the longest loses its buffers first: a program whose shapes change would otherwise keep the old
// ones and cache no new one.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "graph/types/freed_memory.h"

namespace weir {
namespace {

constexpr size_t kMinBytes = 64;
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kMinIdleLimit = size_t{1} << 30;
constexpr size_t kIdleShareOfMachine = 8;
constexpr size_t kMaxBytes = size_t{1} << 46;  // and never more than the machine has
constexpr size_t kMaxThreadStackDepth = 32;
constexpr size_t kThreadStackBytes = size_t{1} << 20;
constexpr int kNumClasses = 81;  // up to kMaxBytes

// The system may promise more and end the process when the promise is called in.
size_t BytesOfMachine() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return kMaxBytes;
  return (static_cast<size_t>(info.totalram) + info.totalswap) * info.mem_unit;
}

// Classes 64, 96, 128, 192, 256...: at most a third is wasted.
int ClassOf(size_t num_bytes) {
  if (num_bytes <= kMinBytes) return 0;
  const int log = std::bit_width(num_bytes - 1);  // 2^(log-1) < num_bytes <= 2^log
  const size_t three_quarters = (size_t{3} << log) >> 2;
  return 2 * (log - 6) - (num_bytes <= three_quarters ? 1 : 0);
}

size_t ClassBytes(int size_class) {
  const size_t power = kMinBytes << ((size_class + 1) / 2);
  return size_class % 2 == 1 ? power / 4 * 3 : power;
}

// How many free buffers of a class a thread keeps for itself.
size_t ThreadStackDepth(size_t class_bytes) {
  return std::clamp<size_t>(kThreadStackBytes / class_bytes, 2, kMaxThreadStackDepth);
}

void* AllocateBlock(size_t num_bytes) {
  const bool is_huge = num_bytes >= kHugePageBytes;
  void* block = nullptr;
  if (posix_memalign(&block, is_huge ? kHugePageBytes : Allocator::kAlignment, num_bytes) != 0)
    return nullptr;
  // Only whole pages: a part of one would take all of it.
  if (is_huge) madvise(block, num_bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  return block;
}

class HostBuffer;

// A thread's free buffers of the small classes; hands them to the shared stacks when the thread ends.
struct ThreadCache {
  struct Stack {
    size_t size = 0;
    std::array<HostBuffer*, kMaxThreadStackDepth> buffers;
  };
  ~ThreadCache();
  std::array<Stack, kNumClasses> stacks;
};

class CachingHostAllocator : public Allocator {
 public:
  RefPtr<Buffer> Allocate(size_t num_bytes) override;
  int64_t num_bytes_in_use() const override { return in_use_.load(std::memory_order_relaxed); }

  void Recycle(HostBuffer* buffer);
  void PushShared(HostBuffer* buffer);
  void DropIdle();

 private:
  struct SharedStack {
    absl::Mutex mutex;
    std::vector<HostBuffer*> buffers ABSL_GUARDED_BY(mutex);
    int64_t last_asked ABSL_GUARDED_BY(mutex) = 0;  // in requests of the whole allocator
  };

  HostBuffer* PopShared(int size_class);
  HostBuffer* Pop(SharedStack& stack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(stack.mutex);
  HostBuffer* PopLeastRecentlyAsked();

  std::array<SharedStack, kNumClasses> shared_;
  const size_t machine_bytes_ = BytesOfMachine();
  const size_t max_bytes_ = std::min(kMaxBytes, machine_bytes_);
  const int64_t idle_limit_ =
      static_cast<int64_t>(std::max(kMinIdleLimit, machine_bytes_ / kIdleShareOfMachine));
  std::atomic<int64_t> num_requests_{0};
  std::atomic<int64_t> idle_{0};
  std::atomic<int64_t> in_use_{0};
};

CachingHostAllocator& TheAllocator() {
  static CachingHostAllocator* allocator =
      new CachingHostAllocator;  // never destroyed: buffers may outlive main
  return *allocator;
}

class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* data, size_t num_bytes, int size_class)
      : Buffer(data, num_bytes), size_class_(size_class) {}
  ~HostBuffer() override { std::free(data_); }

  int size_class() const { return size_class_; }
  size_t class_bytes() const { return ClassBytes(size_class_); }
  void Reuse(size_t num_bytes) {
    num_bytes_ = num_bytes;
    ResetCount();
  }

 private:
  void Release() override { TheAllocator().Recycle(this); }
  const int size_class_;
};

thread_local bool thread_cache_gone = false;

ThreadCache* LocalCache() {
  if (thread_cache_gone) return nullptr;
  thread_local ThreadCache cache;
  return &cache;
}

ThreadCache::~ThreadCache() {
  thread_cache_gone = true;
  for (Stack& stack : stacks) {
    for (size_t i = 0; i < stack.size; ++i) TheAllocator().PushShared(stack.buffers[i]);
  }
}

RefPtr<Buffer> CachingHostAllocator::Allocate(size_t num_bytes) {
  if (num_bytes > max_bytes_) return nullptr;
  const int size_class = ClassOf(num_bytes);
  HostBuffer* buffer = nullptr;
  ThreadCache* cache = LocalCache();
  if (cache != nullptr && cache->stacks[size_class].size > 0) {
    ThreadCache::Stack& stack = cache->stacks[size_class];
    buffer = stack.buffers[--stack.size];
  } else {
    buffer = PopShared(size_class);
  }
  if (buffer != nullptr) {
    buffer->Reuse(num_bytes);
  } else {
    void* block = AllocateBlock(ClassBytes(size_class));
    if (block == nullptr) return nullptr;
    buffer = new HostBuffer(block, num_bytes, size_class);
  }
  if (buffer->class_bytes() >= kLargeBytes)
    in_use_.fetch_add(buffer->class_bytes(), std::memory_order_relaxed);
  return RefPtr<Buffer>(buffer);
}

void CachingHostAllocator::Recycle(HostBuffer* buffer) {
  const size_t num_bytes = buffer->class_bytes();
  if (num_bytes >= kLargeBytes) {
    in_use_.fetch_sub(num_bytes, std::memory_order_relaxed);
    PushShared(buffer);
    return;
  }
  ThreadCache* cache = LocalCache();
  ThreadCache::Stack* stack = cache == nullptr ? nullptr : &cache->stacks[buffer->size_class()];
  if (stack != nullptr && stack->size < ThreadStackDepth(num_bytes)) {
    stack->buffers[stack->size++] = buffer;
  } else {
    PushShared(buffer);
  }
}

void CachingHostAllocator::PushShared(HostBuffer* buffer) {
  const int64_t num_bytes = buffer->class_bytes();
  SharedStack& stack = shared_[buffer->size_class()];
  {
    absl::MutexLock lock(&stack.mutex);
    stack.buffers.push_back(buffer);
    idle_.fetch_add(num_bytes, std::memory_order_relaxed);
  }
  while (idle_.load(std::memory_order_relaxed) > idle_limit_) {
    HostBuffer* surplus = PopLeastRecentlyAsked();
    if (surplus == nullptr) return;  // another thread took the last one
    delete surplus;
  }
}

HostBuffer* CachingHostAllocator::Pop(SharedStack& stack) {
  if (stack.buffers.empty()) return nullptr;
  HostBuffer* buffer = stack.buffers.back();
  stack.buffers.pop_back();
  idle_.fetch_sub(buffer->class_bytes(), std::memory_order_relaxed);
  return buffer;
}

HostBuffer* CachingHostAllocator::PopShared(int size_class) {
  SharedStack& stack = shared_[size_class];
  absl::MutexLock lock(&stack.mutex);
  stack.last_asked = num_requests_.fetch_add(1, std::memory_order_relaxed) + 1;
  return Pop(stack);
}

HostBuffer* CachingHostAllocator::PopLeastRecentlyAsked() {
  SharedStack* oldest = nullptr;
  int64_t oldest_asked = std::numeric_limits<int64_t>::max();
  for (SharedStack& stack : shared_) {
    absl::MutexLock lock(&stack.mutex);
    if (stack.buffers.empty() || stack.last_asked >= oldest_asked) continue;
    oldest = &stack;
    oldest_asked = stack.last_asked;
  }
  if (oldest == nullptr) return nullptr;
  absl::MutexLock lock(&oldest->mutex);
  return Pop(*oldest);
}

void CachingHostAllocator::DropIdle() {
  for (SharedStack& stack : shared_) {
    std::vector<HostBuffer*> dropped;
    {
      absl::MutexLock lock(&stack.mutex);
      while (HostBuffer* buffer = Pop(stack)) dropped.push_back(buffer);
    }
    for (HostBuffer* buffer : dropped) delete buffer;
  }
}

}  // namespace

Allocator& HostAllocator() { return TheAllocator(); }

void ReleaseFreedMemory() {
  TheAllocator().DropIdle();
  malloc_trim(0);
}

}  // namespace weir
