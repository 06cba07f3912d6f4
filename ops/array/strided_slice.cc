#include "ops/array/strided_slice.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

bool HasBit(int64_t mask, int position) { return position < 63 && (mask >> position & 1) != 0; }

// How many elements begin:end:stride takes from an axis; all known, begin and end as Python reads them.
int64_t CountElements(int64_t length, std::optional<int64_t> begin, std::optional<int64_t> end,
                      int64_t stride) {
  const int64_t lowest = stride > 0 ? 0 : -1;
  const int64_t highest = stride > 0 ? length : length - 1;
  const auto resolve = [&](std::optional<int64_t> index, int64_t when_left_out) {
    if (!index) return when_left_out;
    return std::clamp(*index < 0 ? *index + length : *index, lowest, highest);
  };
  const int64_t first = resolve(begin, stride > 0 ? lowest : highest);
  const int64_t last = resolve(end, stride > 0 ? highest : lowest);
  const int64_t span = stride > 0 ? last - first : first - last;
  if (span <= 0) return 0;
  if (stride == std::numeric_limits<int64_t>::min()) return 1;  // has no absolute value
  return (span - 1) / std::abs(stride) + 1;
}

// One walk over the specification.
class StridedSlice {
 public:
  StridedSlice(const PartialShape& input, const std::optional<std::vector<int64_t>>& begin,
               const std::optional<std::vector<int64_t>>& end, const std::vector<int64_t>& strides,
               const SliceMasks& masks)
      : input_(input), begin_(begin), end_(end), strides_(strides), masks_(masks) {}

  absl::StatusOr<PartialShape> Infer() {
    const int positions = static_cast<int>(strides_.size());
    bool has_ellipsis = false;
    for (int i = 0; i < positions; ++i) {
      if (IsEllipsis(i)) {
        if (has_ellipsis) return InvalidArgumentError("ellipsis_mask has more than one bit");
        has_ellipsis = true;
        TakeWholeAxes(input_.rank() - CountAxesAfter(i));
      } else if (HasBit(masks_.new_axis, i)) {
        dims_.push_back(1);
      } else {
        WEIR_RETURN_IF_ERROR(TakeSlice(i));
      }
    }
    TakeWholeAxes(input_.rank());
    return PartialShape::FromDims(dims_);
  }

 private:
  bool IsEllipsis(int position) const { return HasBit(masks_.ellipsis, position); }

  int CountAxesAfter(int position) const {
    int count = 0;
    for (int i = position + 1; i < static_cast<int>(strides_.size()); ++i) {
      count += !IsEllipsis(i) && !HasBit(masks_.new_axis, i);
    }
    return count;
  }

  void TakeWholeAxes(int end_axis) {
    for (; axis_ < end_axis; ++axis_) dims_.push_back(input_.dim(axis_));
  }

  absl::Status TakeSlice(int i) {
    if (axis_ >= input_.rank()) {
      return InvalidArgumentError(StrCat("more indices than axes: input is ", input_.ToString()));
    }
    const int64_t length = input_.dim(axis_++);
    if (strides_[i] == 0) return InvalidArgumentError(StrCat("strides[", i, "] is 0"));
    if (HasBit(masks_.shrink_axis, i)) return CheckIndex(i, length);
    const bool begin_is_known = begin_ || HasBit(masks_.begin, i);
    const bool end_is_known = end_ || HasBit(masks_.end, i);
    const std::optional<int64_t> begin =
        HasBit(masks_.begin, i) || !begin_ ? std::nullopt : std::optional((*begin_)[i]);
    const std::optional<int64_t> end =
        HasBit(masks_.end, i) || !end_ ? std::nullopt : std::optional((*end_)[i]);
    if (!begin_is_known || !end_is_known || length == kUnknown) {
      dims_.push_back(kUnknown);
    } else {
      dims_.push_back(CountElements(length, begin, end, strides_[i]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckIndex(int i, int64_t length) const {
    if (strides_[i] < 0)
      return InvalidArgumentError(
          StrCat("a plain index needs a positive stride, strides[", i, "] is ", strides_[i]));
    if (!begin_ || length == kUnknown) return absl::OkStatus();
    const int64_t index = (*begin_)[i];
    if (index >= -length && index < length) return absl::OkStatus();
    return InvalidArgumentError(
        StrCat("index ", index, " is outside axis ", axis_ - 1, ": input is ", input_.ToString()));
  }

  const PartialShape& input_;
  const std::optional<std::vector<int64_t>>& begin_;
  const std::optional<std::vector<int64_t>>& end_;
  const std::vector<int64_t>& strides_;
  const SliceMasks& masks_;
  int axis_ = 0;  // of the input, next to be taken
  std::vector<int64_t> dims_;
};

}  // namespace

absl::StatusOr<PartialShape> InferStridedSlice(const PartialShape& input,
                                               const std::optional<std::vector<int64_t>>& begin,
                                               const std::optional<std::vector<int64_t>>& end,
                                               const std::vector<int64_t>& strides, const SliceMasks& masks) {
  if (!input.has_rank()) return PartialShape();
  return StridedSlice(input, begin, end, strides, masks).Infer();
}

}  // namespace weir
