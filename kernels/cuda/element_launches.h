// Launches of elementwise kernels: the tensors are checked, then the work is enqueued.
//
// All tensors are in memory of the stream's device, and may be of any size; one without elements launches
// nothing. An output may be the input of the same size. InvalidArgument when shapes or dtypes do not fit,
// NotFound for an op or dtype without a kernel. Thread safety: that of the stream.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/cuda/launch.h"

namespace weir {

// y = op(x)
absl::Status LaunchUnary(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                         const Tensor& x, Tensor& y);
// z = op(x, y); one of the operands may have one element, which is then used again and again.
absl::Status LaunchBinary(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                          const Tensor& x, const Tensor& y, Tensor& z);
// Between the dtypes of VisitCasts (element_bodies.h). What does not fit into an integer becomes its smallest
// number, as NaN does.
absl::Status LaunchCast(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x, Tensor& y);
// y = x + bias: of the last dimension, or of the second one.
absl::Status LaunchBiasAdd(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                           const Tensor& bias, bool channels_first, Tensor& y);
// y, dense and of as many elements as the loops have turns, gets the element of x that each turn comes to.
// `sizes` and `strides` (in elements) are the loops', outermost first; they begin at element `offset`, and a
// stride may be negative. Unimplemented for more than
// cuda::kMostSpreadDims of them, and for elements of 16 bytes.
absl::Status LaunchSpread(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                          absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides, Tensor& y,
                          int64_t offset = 0);

// Fills the tensor with groups of the stream, as Fill in kernels/cpu/random/distributions.h. `distribution`
// and the op must be a pair of VisitDistributions (element_bodies.h); T is the type of the elements.
template <typename T, typename Distribution>
absl::Status LaunchRandom(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                          const Philox& start, uint64_t blocks_per_group, const Distribution& distribution,
                          Tensor& output) {
  if (output.dtype() != DTypeOf<T>) return absl::InvalidArgumentError("the output has another dtype");
  const int64_t count = output.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, op, {output.dtype()},
                      GridOverElements(stream, (count - 1) / kGroup<T> + 1), start, blocks_per_group,
                      distribution, output.data(), count);
}

}  // namespace weir
