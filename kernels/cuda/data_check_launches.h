// Launches of kernels that look at data, and of those that heed what was found (data_error.h).
//
// All tensors are in memory of the stream's device. InvalidArgument when shapes or dtypes do not fit. Thread
// safety: that of the stream.
#pragma once

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/launch.h"

namespace weir {

// Takes note of NaN and infinity among floating-point numbers.
absl::Status LaunchCheckNumerics(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                                 const cuda::DataErrorPlace& place);

// `to` becomes `value`, or `old` when something was found. It may be either of them.
absl::Status LaunchChoose(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& value,
                          const Tensor& old, const volatile cuda::DataError* errors, Tensor& to);

}  // namespace weir
