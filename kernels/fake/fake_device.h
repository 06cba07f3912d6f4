// A device that pretends: type "GPU", tensors in host memory, kernels of the CPU.
//
// For tests of everything that is about devices and not about speed: placement, copies between devices,
// running out of memory. Copies are real copies, so a missing Send/Recv shows. With protected memory a
// missing copy shows too: nobody but its kernels can touch its tensors. Thread safety: all methods.
#pragma once

#include <atomic>
#include <memory>

#include "kernels/device.h"
#include "kernels/fake/protected_memory.h"
#include "kernels/metered_allocator.h"

namespace weir {

class FakeDevice final : public Device {
 public:
  // attributes.memory_limit > 0 bounds the bytes of its tensors, and likewise those of its kernels on the
  // host. `memory` null: its memory is the host's.
  FakeDevice(DeviceAttributes attributes, ThreadPool& threads, std::shared_ptr<ProtectedMemory> memory);

  MemoryKind memory_kind() const override { return memory_ ? MemoryKind::kDevice : MemoryKind::kHost; }
  // Counts allocations and fails them on request.
  MeteredAllocator& allocator() override { return allocator_; }
  Allocator& host_allocator() override { return memory_ ? host_allocator_ : allocator_; }
  absl::StatusOr<Tensor> FromHost(const Tensor& host) override;
  absl::StatusOr<Tensor> ToHost(const Tensor& device) override;

  ProtectedMemory* protected_memory() const { return memory_.get(); }  // null when it is the host's

  // Copies so far, from the host and to it.
  int64_t num_copies_in() const { return num_copies_in_.load(std::memory_order_relaxed); }
  int64_t num_copies_out() const { return num_copies_out_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> num_copies_in_{0}, num_copies_out_{0};
  const std::shared_ptr<ProtectedMemory> memory_;
  MeteredAllocator allocator_, host_allocator_;
};

enum class FakeMemory : uint8_t { kOfHost, kProtected };

// "/job:JOB/replica:0/task:TASK/device:GPU:INDEX" with a random incarnation.
std::unique_ptr<FakeDevice> MakeFakeDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                           int64_t memory_limit = 0, FakeMemory memory = FakeMemory::kOfHost);

}  // namespace weir
