// Launches of comparisons, choices, and joins of tensors.
//
// All tensors are dense and in memory of the stream's device; one without elements launches nothing.
// InvalidArgument when shapes or dtypes do not fit, NotFound for an op or dtype without a kernel. Thread
// safety: that of the stream.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/launch.h"

namespace weir {

// z = op(x, y), bool; one of the operands may have one element, which is then used again and again.
absl::Status LaunchCompare(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                           const Tensor& x, const Tensor& y, Tensor& z);
// y = not x
absl::Status LaunchLogicalNot(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x, Tensor& y);

// to[i] = condition[i] ? yes[i] : no[i]; each of the three may have one element. A condition that has fewer
// elements than the result has one for as many of its elements in a row. The result may be `yes` or `no` of
// its size. Of dtypes with elements of up to 8 bytes.
absl::Status LaunchSelect(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& condition,
                          const Tensor& yes, const Tensor& no, Tensor& to);

// Matrices of `rows` rows, in any shape, side by side. Of any dtype of plain bytes.
absl::Status LaunchJoin(CudaStream& stream, const CudaKernelTable& kernels, absl::Span<const Tensor> inputs,
                        int64_t rows, Tensor& output);

}  // namespace weir
