// Memory that nobody can touch but who has opened it: all others are stopped by the operating system
// (SIGSEGV).
//
// It stands for the memory of a GPU. What touches a tensor there without being a kernel or a copy of the
// device is found by every test that comes by. Buffers have pages of their own and keep the memory: they may
// outlive the device. Thread safety: all methods; it is open for all threads while one has it open.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"

namespace weir {

class ProtectedMemory final : public Allocator, public std::enable_shared_from_this<ProtectedMemory> {
 public:
  // Addresses are reserved, memory is not. One for each fake device.
  static constexpr size_t kCapacity = size_t{64} << 30;

  static std::shared_ptr<ProtectedMemory> Create() {
    return std::shared_ptr<ProtectedMemory>(new ProtectedMemory);
  }
  ~ProtectedMemory() override;

  RefPtr<Buffer> Allocate(size_t num_bytes) override;
  int64_t num_bytes_in_use() const override { return num_bytes_in_use_.load(std::memory_order_relaxed); }

  bool Contains(const void* address) const;

  // Open as long as one of these lives.
  class Opening {
   public:
    explicit Opening(ProtectedMemory& memory) : memory_(memory) { memory_.Open(); }
    ~Opening() { memory_.Close(); }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    ProtectedMemory& memory_;
  };

 private:
  class ProtectedBuffer;

  ProtectedMemory() = default;
  void Open();
  void Close();
  // Null when there is no room.
  char* TakeBlock(size_t num_bytes);
  void GiveBlockBack(char* block, size_t num_bytes);
  void Protect(char* from, char* to, bool is_open) const;

  mutable absl::Mutex mutex_;
  char* begin_ ABSL_GUARDED_BY(mutex_) = nullptr;  // reserved with the first buffer
  char* end_ ABSL_GUARDED_BY(mutex_) = nullptr;    // of what has been handed out
  int num_openings_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<size_t, std::vector<char*>> free_ ABSL_GUARDED_BY(mutex_);  // by size
  std::atomic<int64_t> num_bytes_in_use_{0};
};

}  // namespace weir
