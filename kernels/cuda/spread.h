// Broadcasting on a GPU: a tensor written out in a larger shape. Thread safety: that of the stream.
#pragma once

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/element_launches.h"

namespace weir::cuda {

// Precondition: x broadcasts to y.
inline absl::Status Broadcast(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                              Tensor& y) {
  const Shape& from = x.shape();
  const BroadcastLoops loops = MakeBroadcastLoops(y.shape(), {&from});
  return LaunchSpread(stream, kernels, x, loops.sizes, loops.strides[0], y);
}

}  // namespace weir::cuda
