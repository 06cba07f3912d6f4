// Launches of kernels that indices lead to slices and rows.
//
// All tensors are dense and in memory of the stream's device; indices are int32 or int64. Of those that are
// out of range the kernels take note in `place`, and read or write nothing at them. InvalidArgument when
// shapes or dtypes do not fit. Thread safety: that of the stream.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/launch.h"

namespace weir {

// The sizes of the params [batches, outer, limit, inner], the indices [batches, count] and the output
// [batches, outer, count, inner]. Of an output without elements only the limit counts.
struct GatherSizes {
  int64_t batches = 1, outer = 1, limit = 0, count = 0, inner = 1;
};

// The slices that are chosen; those at bad indices are zeros. Of any dtype of plain bytes.
absl::Status LaunchGather(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& params,
                          const Tensor& indices, const GatherSizes& sizes, Tensor& output,
                          const cuda::DataErrorPlace& place);

// Looks whether the indices are in [0, limit).
absl::Status LaunchCheckIndices(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                                int64_t limit, const cuda::DataErrorPlace& place);

}  // namespace weir
