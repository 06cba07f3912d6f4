// Launches of pooling and its gradients.
//
// Tensors are dense, of the geometry's shapes, of one floating dtype, and in memory of the stream's device;
// results without elements launch nothing. InvalidArgument when they do not fit. Thread safety: that of the
// stream.
#pragma once

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cuda/launch.h"

namespace weir {

absl::Status LaunchMaxPool(CudaStream& stream, const CudaKernelTable& kernels, const WindowGeometry& geometry,
                           const Tensor& x, Tensor& y);
absl::Status LaunchMaxPoolGrad(CudaStream& stream, const CudaKernelTable& kernels,
                               const WindowGeometry& geometry, const Tensor& x, const Tensor& dy, Tensor& dx);
absl::Status LaunchAvgPool(CudaStream& stream, const CudaKernelTable& kernels, const WindowGeometry& geometry,
                           const Tensor& x, Tensor& y);
absl::Status LaunchAvgPoolGrad(CudaStream& stream, const CudaKernelTable& kernels,
                               const WindowGeometry& geometry, const Tensor& dy, Tensor& dx);

}  // namespace weir
