// What kernels for GPUs ask of their arguments' shapes, and of elements on the host. The CPU's kernels ask
// the same, in the same words (kernels/cpu/nn/losses.cc and bias.cc, kernels/cpu/math/matmul.cc and
// reduction.cc).
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/cuda_blas.h"

namespace weir::cuda {

// InvalidArgument "logits is [2,3] but labels is [4]".
absl::Status ShapesDiffer(absl::string_view a_name, const Tensor& a, absl::string_view b_name,
                          const Tensor& b);

// Whether `labels`, int32 or int64 in the host's memory, has a class of the logits for each of their rows. Of
// the logits only the shape is looked at.
absl::Status CheckLabels(const Tensor& logits, const Tensor& labels);

// A tensor as BiasAdd sees it: `outer` times `channels` times `inner` elements (inner is 1 for channels
// last).
struct ChannelView {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};
// InvalidArgument for less than two dimensions.
absl::StatusOr<ChannelView> ViewChannels(const Shape& shape, bool channels_first);
absl::Status CheckBias(const ChannelView& view, const Shape& value, const Shape& bias);

// The product of two matrices, without their elements and dtype; sizes may be 0.
absl::StatusOr<MatrixProduct> ProductOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

// Which dimensions a reduction takes away: of each, whether `axes`, integers in the host's memory, name it.
// InvalidArgument for an axis out of range, or named twice.
absl::StatusOr<std::vector<bool>> ReadReducedAxes(const Tensor& axes, int rank);

struct Reduced {
  Dims dims;          // of the result
  int64_t count = 1;  // elements that each of its elements is made of
};
Reduced ReducedDims(const Shape& shape, const std::vector<bool>& reduced, bool keep_dims);

// Merged dimensions, alternately kept and reduced.
struct MergedDims {
  Dims sizes;
  std::vector<bool> reduced;
};
MergedDims MergeDims(const Shape& shape, const std::vector<bool>& reduced);

}  // namespace weir::cuda
