// Broadcasting on a GPU: a tensor written out in a larger shape. Thread safety: that of the stream.
#pragma once

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/kernel_context.h"

namespace weir::cuda {

// Precondition: x broadcasts to y.
inline absl::Status Broadcast(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                              Tensor& y) {
  const Shape& from = x.shape();
  const BroadcastLoops loops = MakeBroadcastLoops(y.shape(), {&from});
  return LaunchSpread(stream, kernels, x, loops.sizes, loops.strides[0], y);
}

// What a launch takes that uses single elements again and again: x, or x written out in `shape`.
inline absl::StatusOr<Tensor> Widened(KernelContext& context, CudaStream& stream,
                                      const CudaKernelTable& kernels, const Tensor& x, const Shape& shape) {
  if (x.num_elements() == 1 || x.num_elements() == shape.num_elements()) return x;
  absl::StatusOr<Tensor> wide = context.AllocateTemporary(x.dtype(), shape);
  if (!wide.ok()) return wide;
  const absl::Status status = Broadcast(stream, kernels, x, *wide);
  if (!status.ok()) return status;
  return wide;
}

}  // namespace weir::cuda
