// Launches of kernels on the rows of matrices: reductions, sums of columns, softmax cross entropy.
//
// All tensors are dense, row-major and in memory of the stream's device; a matrix without elements launches
// no more than its result needs. InvalidArgument when shapes or dtypes do not fit. Thread safety: that of the
// stream.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/launch.h"

namespace weir {

// What half and bfloat16 are summed in: float. Others are summed as they are.
DType SumDType(DType dtype);

enum class RowReduction { kSum, kMean, kMax, kMin };

// y[r] = the reduction of row r of x, a matrix of rows x columns in any shape. A row without elements gives
// what the CPU's kernels give: 0, NaN, -infinity or infinity. Sums and means may go from a dtype to its
// SumDType and back, so that what is summed in several steps is rounded once.
absl::Status LaunchRowReduction(CudaStream& stream, const CudaKernelTable& kernels, RowReduction reduction,
                                const Tensor& x, int64_t rows, int64_t columns, Tensor& y);

// y[m, c] = the sum or the mean of column c of matrix m; the sum is the gradient of a bias. Takes memory for
// parts of the sums from `allocator`, which must be the device's. The dtype of y as in LaunchRowReduction.
absl::Status LaunchColumnSum(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                             int64_t rows, int64_t columns, Allocator& allocator, Tensor& y,
                             bool is_mean = false, int64_t matrices = 1);

// losses[r] of logits and labels [rows, columns]; the gradient may take the place of either.
absl::Status LaunchCrossEntropy(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& logits,
                                const Tensor& labels, Tensor& losses, Tensor& gradient);

// The same for labels that are classes, int32 or int64. Takes note of those that are none, whose losses and
// gradients are NaN.
absl::Status LaunchSparseCrossEntropy(CudaStream& stream, const CudaKernelTable& kernels,
                                      const Tensor& logits, const Tensor& labels, Tensor& losses,
                                      Tensor& gradient, const cuda::DataErrorPlace& place);

}  // namespace weir
