// A GPU of NVIDIA's as a device: type "GPU", tensors in its own memory.
//
// It has memory and copies; there are no kernels in the registry for it yet, so no Runtime makes one. Copies
// to it are enqueued on the compute stream, so that they come after the work that used their memory before.
// Copies to the host have a stream and a thread of their own, which waits for what the compute stream had to
// do when they were asked for. Strings and handles stay in the host's memory. When CUDA says that the device
// is lost, that is the answer to everything from then on: Unavailable, with the error's name. Thread safety:
// all methods.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/pinned_slab.h"
#include "kernels/device.h"
#include "kernels/memory_kind.h"
#include "kernels/serial_thread.h"

namespace weir {

class CudaDevice final : public Device {
 public:
  // `number` is CUDA's; attributes.memory_limit bounds what is taken of its memory. The API must outlive the
  // device and all its buffers.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(CudaApi& api, int number,
                                                            DeviceAttributes attributes, ThreadPool& threads);

  MemoryKind memory_kind() const override { return MemoryKind::kDevice; }
  CachingAllocator& allocator() override { return allocator_; }
  Allocator& host_allocator() override { return HostAllocator(); }
  // Where kernels go.
  CudaStream& stream() { return *stream_; }

  // The copy has ended, as far as `host` goes, when this returns: the elements are in pinned memory.
  absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) override;
  absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) override;

  // Ok, or why the device is lost.
  absl::Status health() const;
  // Passes a status on, and remembers when it says that the device is lost.
  absl::Status Noted(absl::Status status);

 private:
  CudaDevice(CudaApi& api, int number, DeviceAttributes attributes, ThreadPool& threads,
             std::unique_ptr<CudaStream> stream, std::unique_ptr<CudaStream> stream_to_host);
  absl::Status CopyNow(const CudaEvent& begin, const Tensor& from, Tensor& to);

  CachingAllocator allocator_;
  const std::unique_ptr<CudaStream> stream_, stream_to_host_;
  PinnedSlab to_device_;
  PinnedSlab to_host_;
  mutable absl::Mutex mutex_;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  SerialThread copies_out_;  // last: it ends first
};

struct CudaDevices {
  std::vector<std::unique_ptr<CudaDevice>> devices;
  // GPUs that are not among them, with the reason: "GPU 1 (Tesla T4): ...".
  std::vector<std::string> left_out;
};

// A device for every GPU that CUDA_VISIBLE_DEVICES lets CUDA see, as
// "/job:JOB/replica:0/task:TASK/device:GPU:0" and on. None, and no error, where there is no GPU or no driver.
// `memory_limit` is that of each; 0 for all that is free, but for what CUDA and its libraries need.
absl::StatusOr<CudaDevices> MakeCudaDevices(CudaApi& api, absl::string_view job, int task,
                                            ThreadPool& threads, int64_t memory_limit = 0);

// "NVIDIA H100 80GB HBM3, compute capability 9.0, 85.0 GB".
std::string Describe(const CudaDeviceProperties& properties);
// An empty text for a GPU that runs what the build compiles, else what it lacks.
std::string WhyTooOld(const CudaDeviceProperties& properties);

}  // namespace weir
