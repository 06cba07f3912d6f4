// Batch normalization and its gradient. The bodies are in batch_norm_bodies.h.
#include "kernels/cuda/all_kernels.h"
#include "kernels/cuda/batch_norm_bodies.h"
#include "kernels/cuda/device_position.h"

namespace weir::cuda {
namespace {

template <typename T>
__global__ void MomentsKernel(const T* x, double* moments, ChannelDims dims, ChannelParts parts) {
  MomentsBody(ThisThread(), x, moments, dims, parts);
}

template <typename T>
__global__ void GradientSumsKernel(const T* dy, const T* x, const float* mean, double* sums, ChannelDims dims,
                                   ChannelParts parts) {
  GradientSumsBody(ThisThread(), dy, x, mean, sums, dims, parts);
}

__global__ void CombineMomentsKernel(const double* from, double* to, int64_t channels, ChannelParts parts) {
  CombineMomentsBody(ThisThread(), from, to, channels, parts);
}

__global__ void CombineSumsKernel(const double* from, double* to, int64_t channels, ChannelParts parts) {
  CombineSumsBody(ThisThread(), from, to, channels, parts);
}

__global__ void StatisticsKernel(const double* moments, int64_t channels, int64_t count, BatchNormAttrs attrs,
                                 BatchNormVectors vectors) {
  BatchStatisticsBody(ThisThread(), moments, channels, count, attrs, vectors);
}

template <typename T>
__global__ void NormalizeKernel(const T* x, T* y, int64_t n, ChannelDims dims, const float* mean,
                                const float* factor, const float* offset) {
  NormalizeBody(ThisThread(), x, y, n, dims, mean, factor, offset);
}

__global__ void GradientKernel(const double* sums, int64_t channels, int64_t count, const float* scale,
                               const float* variance, BatchNormAttrs attrs, float* scale_gradient,
                               float* offset_gradient, float* slopes) {
  BatchGradientBody(ThisThread(), sums, channels, count, scale, variance, attrs, scale_gradient,
                    offset_gradient, slopes);
}

template <typename T>
__global__ void BackpropKernel(const T* dy, const T* x, T* dx, int64_t n, ChannelDims dims, const float* mean,
                               const float* slopes) {
  BackpropBody(ThisThread(), dy, x, dx, n, dims, mean, slopes);
}

}  // namespace

void AddBatchNormKernels(CudaKernelTable* table) {
  VisitNormalized([=]<typename T>() {
    table->Add("BatchMoments", {DTypeOf<T>}, &MomentsKernel<T>);
    table->Add("BatchGradientSums", {DTypeOf<T>}, &GradientSumsKernel<T>);
    table->Add("BatchNormalize", {DTypeOf<T>}, &NormalizeKernel<T>);
    table->Add("BatchBackprop", {DTypeOf<T>}, &BackpropKernel<T>);
  });
  table->Add("BatchCombineMoments", {}, &CombineMomentsKernel);
  table->Add("BatchCombineSums", {}, &CombineSumsKernel);
  table->Add("BatchStatistics", {}, &StatisticsKernel);
  table->Add("BatchGradient", {}, &GradientKernel);
}

}  // namespace weir::cuda
