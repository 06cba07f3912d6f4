#include "kernels/cuda/test_cuda_backend.h"

#include "kernels/cuda/test_host_blas.h"
#include "kernels/cuda/test_host_dnn.h"
#include "kernels/cuda/test_host_kernels.h"
#include "kernels/cuda/test_host_sort.h"

namespace weir {

struct TestCudaBackend::Parts {
  explicit Parts(RecordingCudaApi& api) : kernels(api), blas(api), dnn(api), sort(api), nccl(api) {}
  const HostKernels kernels;
  HostBlas blas;
  HostDnn dnn;
  HostSort sort;
  RecordingNcclApi nccl;
};

TestCudaBackend::TestCudaBackend(RecordingCudaApi& api)
    : parts_(std::make_unique<Parts>(api)),
      backend_{.api = &api,
               .compute = {.kernels = &parts_->kernels.table(),
                           .blas = &parts_->blas,
                           .dnn = &parts_->dnn,
                           .sort = &parts_->sort},
               .nccl = &parts_->nccl} {}

TestCudaBackend::~TestCudaBackend() = default;

RecordingNcclApi& TestCudaBackend::nccl() const { return parts_->nccl; }

}  // namespace weir
