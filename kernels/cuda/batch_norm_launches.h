// Launches of batch normalization and its gradient.
//
// All tensors are dense and in memory of the stream's device; x, y, dy and dx are float, half or bfloat16 and
// of one shape, vectors are float and have an element for each channel. Nothing is empty. Memory for parts of
// sums comes from `allocator`, which must be the device's. InvalidArgument when shapes or dtypes do not fit.
// Thread safety: that of the stream.
#pragma once

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/batch_norm_bodies.h"
#include "kernels/cuda/launch.h"

namespace weir {

struct BatchNormTensors {
  const Tensor &x, &scale, &offset, &running_mean, &running_variance;  // the last two: see LaunchBatchNorm
  Tensor &y, &batch_mean, &batch_variance, &saved_mean, &saved_variance;
};
// The running averages are read where attrs ask for them, and may be of any size elsewhere.
absl::Status LaunchBatchNorm(CudaStream& stream, const CudaKernelTable& kernels, Allocator& allocator,
                             const cuda::ChannelDims& dims, const cuda::BatchNormAttrs& attrs,
                             const BatchNormTensors& tensors);

struct BatchNormGradTensors {
  const Tensor &dy, &x, &scale, &saved_mean, &saved_variance;
  Tensor &dx, &scale_gradient, &offset_gradient;
};
absl::Status LaunchBatchNormGrad(CudaStream& stream, const CudaKernelTable& kernels, Allocator& allocator,
                                 const cuda::ChannelDims& dims, const cuda::BatchNormAttrs& attrs,
                                 const BatchNormGradTensors& tensors);

}  // namespace weir
