// A GPU of NVIDIA's as a device: type "GPU", tensors in its own memory.
//
// Its kernels (cuda_kernels.h) enqueue work on the compute stream and return; so do copies to it, so that
// they come after the work that used their memory before. Memory may be given back as soon as the work that
// uses it is enqueued: whoever gets it next uses it later in the same stream. Copies to the host have a
// stream and a thread of their own, which waits for what the compute stream had to do when they were asked
// for. Strings and handles stay in the host's memory. When CUDA says that the device is lost, or who knows
// that its memory has numbers that are wrong (gpu_clique.h), that is the answer from then on (lost_device.h),
// with the reason: to steps, and to copies to the host that have not ended. What kernels find wrong with data
// comes late (LateErrors). While a thread records (cuda_recorder.h), its kernels go to a stream that is
// captured. Thread safety: all methods.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "graph/types/allocator.h"
#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/cuda_dnn.h"
#include "kernels/cuda/cuda_sort.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/data_checks.h"
#include "kernels/cuda/device_health.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/pinned_slab.h"
#include "kernels/device.h"
#include "kernels/late_errors.h"
#include "kernels/memory_kind.h"
#include "kernels/recorder.h"
#include "kernels/serial_thread.h"

namespace weir {

// What its kernels compute with. Without one of them they say that there is none.
struct CudaCompute {
  const CudaKernelTable* kernels = nullptr;
  CudaBlas* blas = nullptr;
  CudaDnn* dnn = nullptr;
  CudaSort* sort = nullptr;
};

class CudaDevice final : public Device, public LateErrors, public Recordable {
 public:
  // `number` is CUDA's; attributes.memory_limit bounds what is taken of its memory. The API and `compute`
  // must outlive the device and all its buffers.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(CudaApi& api, int number,
                                                            DeviceAttributes attributes, ThreadPool& threads,
                                                            const CudaCompute& compute = {});

  MemoryKind memory_kind() const override { return MemoryKind::kDevice; }
  CachingAllocator& allocator() override { return DetourHere() ? *DetourHere()->allocator : allocator_; }
  Allocator& host_allocator() override { return HostAllocator(); }
  // Where kernels go.
  CudaStream& stream() { return DetourHere() ? *DetourHere()->stream : *stream_; }
  // Where they go while nothing is recorded.
  CudaStream& compute_stream() { return *stream_; }
  const CudaKernelTable& kernels() const { return kernels_; }
  // Enqueues the product. FailedPrecondition when the device was made without.
  absl::Status Multiply(const MatrixProduct& product);
  // The same for a convolution.
  absl::Status Convolve(const Convolution& convolution);
  // The same for a sort.
  absl::Status Sort(const PairSort& pairs);

  // The copy has ended, as far as `host` goes, when this returns: the elements are in pinned memory.
  absl::StatusOr<Tensor> CopyIn(const Tensor& host, CopyDone done) override;
  absl::StatusOr<Tensor> CopyOut(const Tensor& device, CopyDone done) override;

  // Checks of data, by its kernels.
  DataChecks& checks() { return checks_; }
  absl::Status ErrorOf(const PendingWork& step) override { return checks_.ErrorOf(step); }
  // That it is lost is an error of the step, too, though its kernels have enqueued their work before.
  absl::Status EndStep(const PendingWork& step, bool has_failed) override;
  // Puts the elements of `host` into a tensor of this device, for kernels that are enqueued later.
  absl::Status CopyInto(const Tensor& host, const Tensor& device);

  std::unique_ptr<Recorder> NewRecorder() override;
  bool is_recording() const override { return DetourHere() != nullptr; }
  // Another stream and other memory for all that kernels of one thread enqueue here.
  struct Detour {
    const CudaDevice* device = nullptr;
    CudaStream* stream = nullptr;
    CachingAllocator* allocator = nullptr;
  };
  // For the calling thread; null ends it. Borrowed meanwhile.
  static void Take(const Detour* detour);

  // A tensor that no work changes any more, in the host's memory. Waits for the copy.
  absl::StatusOr<Tensor> ReadBack(const Tensor& device);

  // Ok, or why the device is lost.
  absl::Status health() const { return health_->status(); }
  // The same for who may outlive the device.
  const std::shared_ptr<DeviceHealth>& shared_health() const { return health_; }
  // Passes a status on, and remembers when it says that the device is lost.
  absl::Status Noted(absl::Status status);

 private:
  CudaDevice(CudaApi& api, int number, DeviceAttributes attributes, ThreadPool& threads,
             const CudaCompute& compute, std::unique_ptr<CudaStream> stream,
             std::unique_ptr<CudaStream> stream_to_host);
  // Null when the calling thread has none here.
  const Detour* DetourHere() const;
  absl::Status CopyNow(const CudaEvent& begin, const Tensor& from, Tensor& to);

  const CudaKernelTable& kernels_;
  CudaBlas* const blas_;
  CudaDnn* const dnn_;
  CudaSort* const sort_;
  CachingAllocator allocator_;
  const std::unique_ptr<CudaStream> stream_, stream_to_host_;
  DataChecks checks_;
  PinnedSlab to_device_;
  PinnedSlab to_host_;
  const std::shared_ptr<DeviceHealth> health_;
  SerialThread copies_out_;  // last: it ends first
};

struct CudaDevices {
  std::vector<std::unique_ptr<CudaDevice>> devices;
  // GPUs that are not among them, with the reason: "GPU 1 (Tesla T4): ...".
  std::vector<std::string> left_out;
};

struct CudaDeviceOptions {
  // Of each device; 0 for all that is free, but for what CUDA and its libraries need.
  int64_t memory_limit = 0;
  int most = std::numeric_limits<int>::max();
  CudaCompute compute;
};

// A device for every GPU that CUDA_VISIBLE_DEVICES lets CUDA see, up to options.most, as
// "/job:JOB/replica:0/task:TASK/device:GPU:0" and on. None, and no error, where there is no GPU or no driver.
absl::StatusOr<CudaDevices> MakeCudaDevices(CudaApi& api, absl::string_view job, int task,
                                            ThreadPool& threads, const CudaDeviceOptions& options = {});

// "NVIDIA H100 80GB HBM3, compute capability 9.0, 85.0 GB".
std::string Describe(const CudaDeviceProperties& properties);
// An empty text for a GPU that runs what the build compiles, else what it lacks.
std::string WhyTooOld(const CudaDeviceProperties& properties);

}  // namespace weir
