// Elementwise kernels, biases, broadcasting and random numbers. Their bodies are in element_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/device_position.h"
#include "kernels/cuda/element_bodies.h"

namespace weir::cuda {
namespace {

template <typename F, typename T>
__global__ void UnaryKernel(const T* x, T* y, int64_t n) {
  UnaryBody<F>(ThisThread(), x, y, n);
}

template <typename F, typename T>
__global__ void BinaryKernel(const T* x, int64_t x_step, const T* y, int64_t y_step, T* z, int64_t n) {
  BinaryBody<F>(ThisThread(), x, x_step, y, y_step, z, n);
}

template <typename From, typename To>
__global__ void CastKernel(const From* x, To* y, int64_t n) {
  CastBody(ThisThread(), x, y, n);
}

template <typename T>
__global__ void BiasKernel(const T* x, const T* bias, T* y, int64_t n, int64_t channels, int64_t inner) {
  BiasBody(ThisThread(), x, bias, y, n, channels, inner);
}

template <typename T>
__global__ void SpreadKernel(const T* x, T* y, int64_t n, const __grid_constant__ SpreadDims dims) {
  SpreadBody(ThisThread(), x, y, n, dims);
}

template <typename Distribution, typename T>
__global__ void RandomKernel(Philox start, uint64_t blocks_per_group, Distribution distribution, T* output,
                             int64_t n) {
  RandomBody(ThisThread(), start, blocks_per_group, distribution, output, n);
}

}  // namespace

void AddElementwiseKernels(CudaKernelTable* table) {
  VisitUnary(
      [=]<typename F, typename T>(const char* name) { table->Add(name, {DTypeOf<T>}, &UnaryKernel<F, T>); });
  VisitBinary(
      [=]<typename F, typename T>(const char* name) { table->Add(name, {DTypeOf<T>}, &BinaryKernel<F, T>); });
  VisitCasts([=]<typename From, typename To>() {
    table->Add("Cast", {DTypeOf<From>, DTypeOf<To>}, &CastKernel<From, To>);
  });
  VisitFloats([=]<typename T>() { table->Add("BiasAdd", {DTypeOf<T>}, &BiasKernel<T>); });
  VisitSizes([=]<typename T>() { table->Add("Spread", {DTypeOf<T>}, &SpreadKernel<T>); });
  VisitDistributions([=]<typename Distribution, typename T>(const char* name) {
    table->Add(name, {DTypeOf<T>}, &RandomKernel<Distribution, T>);
  });
}

}  // namespace weir::cuda
