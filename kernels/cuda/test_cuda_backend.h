// A CudaBackend for tests: a RecordingCudaApi, with kernels, products of matrices, convolutions and sorts
// that compute on the host (test_host_kernels.h, test_host_blas.h, test_host_dnn.h, test_host_sort.h), and a
// RecordingNcclApi. The API must outlive it, and it the devices and their work.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/recording_nccl_api.h"

namespace weir {

class TestCudaBackend {
 public:
  explicit TestCudaBackend(RecordingCudaApi& api);
  ~TestCudaBackend();

  const CudaBackend& backend() const { return backend_; }
  RecordingNcclApi& nccl() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
  const CudaBackend backend_;
};

}  // namespace weir
