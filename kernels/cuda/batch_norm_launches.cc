#include "kernels/cuda/batch_norm_launches.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

using cuda::ChannelDims;
using cuda::ChannelParts;

// Below this many elements a part of a channel is not worth a thread.
constexpr int64_t kFewestElements = 32;

// As many parts as there are threads for.
ChannelParts PartsOf(const CudaStream& stream, const ChannelDims& dims) {
  const int64_t threads = stream.num_multiprocessors() * kCudaBlocksPerMultiprocessor * kCudaBlockThreads;
  const int64_t most = std::max<int64_t>(1, threads / dims.channels);
  ChannelParts parts = {.count = dims.count(), .each = 0, .parts = 0};
  parts.each = std::max(kFewestElements, (parts.count + most - 1) / most);
  parts.parts = (parts.count + parts.each - 1) / parts.each;
  return parts;
}

absl::Status Check(const ChannelDims& dims, const Tensor& x, std::initializer_list<const Tensor*> alike,
                   std::initializer_list<const Tensor*> vectors) {
  const int64_t count = dims.count() * dims.channels;
  bool fits = count > 0 && x.num_elements() == count;
  for (const Tensor* tensor : alike) {
    fits = fits && tensor->num_elements() == count && tensor->dtype() == x.dtype();
  }
  for (const Tensor* tensor : vectors) {
    fits = fits && tensor->num_elements() == dims.channels && tensor->dtype() == DType::kFloat32;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("batch normalization of ", DTypeName(x.dtype()), x.shape().ToString(), " as ", dims.outer,
                   " x ", dims.channels, " x ", dims.inner, ": other tensors do not fit"));
}

absl::StatusOr<Tensor> NewParts(Allocator& allocator, const ChannelParts& parts, int64_t channels) {
  return Tensor::Allocate(DType::kFloat64, Shape({2, parts.parts, channels}), allocator);
}

// Puts parts together until each channel has one. `kernel`: which of the two ways.
absl::StatusOr<Tensor> Combine(CudaStream& stream, const CudaKernelTable& kernels, Allocator& allocator,
                               const char* kernel, Tensor from, int64_t channels, ChannelParts parts) {
  while (parts.parts > 1) {
    const ChannelParts result = cuda::Combined(parts);
    WEIR_ASSIGN_OR_RETURN(Tensor to, NewParts(allocator, result, channels));
    WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, kernel, {},
                                      GridOverElements(stream, 2 * result.parts * channels), from.data(),
                                      to.data(), channels, parts));
    from = std::move(to);
    parts = result;
  }
  return from;
}

float* FloatsOf(const Tensor& tensor) { return static_cast<float*>(const_cast<void*>(tensor.data())); }

}  // namespace

absl::Status LaunchBatchNorm(CudaStream& stream, const CudaKernelTable& kernels, Allocator& allocator,
                             const ChannelDims& dims, const cuda::BatchNormAttrs& attrs,
                             const BatchNormTensors& t) {
  WEIR_RETURN_IF_ERROR(
      Check(dims, t.x, {&t.y},
            {&t.scale, &t.offset, &t.batch_mean, &t.batch_variance, &t.saved_mean, &t.saved_variance}));
  if (!attrs.is_training || attrs.average_factor != 1) {
    WEIR_RETURN_IF_ERROR(Check(dims, t.x, {}, {&t.running_mean, &t.running_variance}));
  }
  Tensor moments;
  if (attrs.is_training) {
    const ChannelParts parts = PartsOf(stream, dims);
    WEIR_ASSIGN_OR_RETURN(moments, NewParts(allocator, parts, dims.channels));
    WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "BatchMoments", {t.x.dtype()},
                                      GridOverElements(stream, parts.parts * dims.channels), t.x.data(),
                                      moments.data(), dims, parts));
    WEIR_ASSIGN_OR_RETURN(moments, Combine(stream, kernels, allocator, "BatchCombineMoments",
                                           std::move(moments), dims.channels, parts));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor factor, Tensor::Allocate(DType::kFloat32, Shape({dims.channels}), allocator));
  const cuda::BatchNormVectors vectors = {.scale = FloatsOf(t.scale),
                                          .running_mean = FloatsOf(t.running_mean),
                                          .running_variance = FloatsOf(t.running_variance),
                                          .batch_mean = FloatsOf(t.batch_mean),
                                          .batch_variance = FloatsOf(t.batch_variance),
                                          .saved_mean = FloatsOf(t.saved_mean),
                                          .saved_variance = FloatsOf(t.saved_variance),
                                          .factor = FloatsOf(factor)};
  const void* const sums = attrs.is_training ? moments.data() : nullptr;
  WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "BatchStatistics", {},
                                    GridOverElements(stream, dims.channels), sums, dims.channels,
                                    dims.count(), attrs, vectors));
  const int64_t count = t.x.num_elements();
  return LaunchKernel(stream, kernels, "BatchNormalize", {t.x.dtype()}, GridOverElements(stream, count),
                      t.x.data(), t.y.data(), count, dims, t.saved_mean.data(), factor.data(),
                      t.offset.data());
}

absl::Status LaunchBatchNormGrad(CudaStream& stream, const CudaKernelTable& kernels, Allocator& allocator,
                                 const ChannelDims& dims, const cuda::BatchNormAttrs& attrs,
                                 const BatchNormGradTensors& t) {
  WEIR_RETURN_IF_ERROR(
      Check(dims, t.x, {&t.dy, &t.dx},
            {&t.scale, &t.saved_mean, &t.saved_variance, &t.scale_gradient, &t.offset_gradient}));
  const ChannelParts parts = PartsOf(stream, dims);
  WEIR_ASSIGN_OR_RETURN(Tensor sums, NewParts(allocator, parts, dims.channels));
  WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "BatchGradientSums", {t.x.dtype()},
                                    GridOverElements(stream, parts.parts * dims.channels), t.dy.data(),
                                    t.x.data(), t.saved_mean.data(), sums.data(), dims, parts));
  WEIR_ASSIGN_OR_RETURN(
      sums, Combine(stream, kernels, allocator, "BatchCombineSums", std::move(sums), dims.channels, parts));
  WEIR_ASSIGN_OR_RETURN(Tensor slopes,
                        Tensor::Allocate(DType::kFloat32, Shape({3, dims.channels}), allocator));
  WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "BatchGradient", {},
                                    GridOverElements(stream, dims.channels), sums.data(), dims.channels,
                                    dims.count(), t.scale.data(), t.saved_variance.data(), attrs,
                                    t.scale_gradient.data(), t.offset_gradient.data(), slopes.data()));
  const int64_t count = t.x.num_elements();
  return LaunchKernel(stream, kernels, "BatchBackprop", {t.x.dtype()}, GridOverElements(stream, count),
                      t.dy.data(), t.x.data(), t.dx.data(), count, dims, t.saved_mean.data(), slopes.data());
}

}  // namespace weir
