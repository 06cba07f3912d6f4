// The host's processor as a device of type "CPU".
//
// Its memory is the host's: CopyIn and CopyOut share the buffer. Thread safety: all methods.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/metered_allocator.h"

namespace weir {

class CpuDevice final : public Device {
 public:
  // attributes.memory_limit > 0 bounds the bytes of its tensors. Buffers may outlive the device.
  CpuDevice(DeviceAttributes attributes, ThreadPool& threads);

  Allocator& allocator() override { return *allocator_; }
  absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) override { return Share(host, done); }
  absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) override { return Share(device, done); }

 private:
  std::unique_ptr<MeteredAllocator>
      limited_;  // null without a limit: then no bytes are counted on the step path
  Allocator* allocator_;
};

// "/job:JOB/replica:0/task:TASK/device:CPU:INDEX" with a random incarnation.
std::unique_ptr<CpuDevice> MakeCpuDevice(absl::string_view job, int task, int index, ThreadPool& threads,
                                         int64_t memory_limit = 0);

}  // namespace weir
