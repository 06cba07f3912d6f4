// The order in which rows that indices name are worked on: what updates and sums of rows begin with.
//
// Thread safety: that of the device's stream.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/indexed_launches.h"
#include "kernels/kernel_context.h"

namespace weir::cuda {

enum class NegativeIndices { kBad, kDropped };

// Enqueues what sorts the indices, of rows [0, limit), and takes note of bad ones in `place`. Precondition:
// there are indices.
absl::StatusOr<RowOrder> SortRows(KernelContext& context, CudaDevice& device, const Tensor& indices,
                                  int64_t limit, NegativeIndices negative, const DataErrorPlace& place);

}  // namespace weir::cuda
