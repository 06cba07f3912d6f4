// What kernels ask of their arguments: of shapes, and of elements in the host's memory. The CPU's kernels and
// those for GPUs call these, so that a mistake has one text wherever it is found.
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
#include "kernels/cpu/math/matrix_product.h"

namespace weir {

// InvalidArgument "logits is [2,3] but labels is [4]".
absl::Status ShapesDiffer(absl::string_view a_name, const Shape& a, absl::string_view b_name, const Shape& b);

// Whether labels of that shape can be classes of the logits' rows.
absl::Status CheckLabelShape(const Shape& logits, const Shape& labels);
// Whether `labels`, int32 or int64 in the host's memory, are classes of the logits.
// Precondition: CheckLabelShape.
absl::Status CheckLabels(const Shape& logits, const Tensor& labels);

// What CheckNumerics says of a tensor, in the host's memory, in which it has found NaN, infinity or both.
absl::Status NotFinite(absl::string_view message, bool has_nan, bool has_infinity, const Tensor& tensor);

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

// The product of two matrices; sizes may be 0.
absl::StatusOr<ProductShape> ProductOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

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

}  // namespace weir
