// A device that pretends: type "GPU", tensors in host memory, kernels of the CPU.
//
// For tests of everything that is about devices and not about speed: placement, copies between devices,
// running out of memory. Copies are real copies, so a missing Send/Recv shows. Thread safety: all methods.
#pragma once

#include <atomic>
#include <memory>

#include "kernels/device.h"
#include "kernels/kernel_registry.h"
#include "kernels/metered_allocator.h"

namespace weir {

class FakeDevice final : public Device {
 public:
  // attributes.memory_limit > 0 bounds the bytes of its tensors. Buffers must not outlive the device.
  FakeDevice(DeviceAttributes attributes, ThreadPool& threads);

  // Counts allocations and fails them on request.
  MeteredAllocator& allocator() override { return allocator_; }
  absl::StatusOr<Tensor> FromHost(const Tensor& host) override;
  absl::StatusOr<Tensor> ToHost(const Tensor& device) override;

  // Copies from and to the host so far.
  int64_t num_copies() const { return num_copies_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> num_copies_{0};
  MeteredAllocator allocator_;
};

// "/job:JOB/replica:0/task:TASK/device:GPU:INDEX" with a random incarnation.
std::unique_ptr<FakeDevice> MakeFakeDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                           int64_t memory_limit = 0);

// The CPU's kernels under the type "GPU".
void RegisterFakeKernels(KernelRegistry& registry);

}  // namespace weir
