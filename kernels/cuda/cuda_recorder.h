// Records what kernels of a CudaDevice enqueue, as graphs of CUDA.
//
// A stream of its own is captured, so that other threads enqueue on the device's as always. It never does
// anything itself: graphs are launched on the compute stream, in whose order they use the pool. Copies from
// the host do not belong to a graph: those of a recording thread happen once, on the compute stream, and stay
// where they are. See Recorder for who may call what.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/data_checks.h"
#include "kernels/recorder.h"

namespace weir {

class CudaRecorder final : public Recorder {
 public:
  explicit CudaRecorder(CudaDevice& device);
  // Ends what was not ended.
  ~CudaRecorder() override;

  absl::StatusOr<PendingWork*> Begin() override;
  absl::StatusOr<std::unique_ptr<Recording>> End(const std::vector<Tensor>& given) override;
  void GiveUp() override;

 private:
  class Graph;

  absl::StatusOr<CudaGraphHandle> EndCapture();

  CudaDevice& device_;
  const std::unique_ptr<CachingAllocator> pool_;
  std::unique_ptr<CudaStream> stream_;  // made when it is needed
  CudaDevice::Detour detour_;
  std::unique_ptr<RecordedChecks> checks_;  // while something is recorded
  std::vector<Graph*> graphs_;              // those that are there
};

}  // namespace weir
