// Pooling and its gradients. The bodies are in pool_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/device_position.h"
#include "kernels/cuda/pool_bodies.h"

namespace weir::cuda {
namespace {

template <typename T>
__global__ void MaxPoolKernel(const T* x, T* y, int64_t n, const __grid_constant__ PoolDims dims) {
  MaxPoolBody(ThisThread(), x, y, n, dims);
}

template <typename T>
__global__ void MaxPoolGradKernel(const T* x, const T* dy, T* dx, int64_t n,
                                  const __grid_constant__ PoolDims dims) {
  MaxPoolGradBody(ThisThread(), x, dy, dx, n, dims);
}

template <typename T>
__global__ void AvgPoolKernel(const T* x, T* y, int64_t n, const __grid_constant__ PoolDims dims) {
  AvgPoolBody(ThisThread(), x, y, n, dims);
}

template <typename T>
__global__ void AvgPoolGradKernel(const T* dy, T* dx, int64_t n, const __grid_constant__ PoolDims dims) {
  AvgPoolGradBody(ThisThread(), dy, dx, n, dims);
}

}  // namespace

void AddPoolKernels(CudaKernelTable* table) {
  VisitFloats([=]<typename T>() {
    table->Add("MaxPool", {DTypeOf<T>}, &MaxPoolKernel<T>);
    table->Add("MaxPoolGrad", {DTypeOf<T>}, &MaxPoolGradKernel<T>);
    table->Add("AvgPool", {DTypeOf<T>}, &AvgPoolKernel<T>);
    table->Add("AvgPoolGrad", {DTypeOf<T>}, &AvgPoolGradKernel<T>);
  });
}

}  // namespace weir::cuda
