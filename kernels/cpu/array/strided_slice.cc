#include "kernels/cpu/array/strided_slice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// One entry of the specification, once the ellipsis is spelled out: what happens to one dimension of the
// input.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 1;
  bool whole_begin = true;
  bool whole_end = true;
  bool shrink = false;
};

constexpr int kNewAxis = StridedSlicePlan::kNewAxis;

struct DenseSpecification {
  absl::InlinedVector<Range, 4> ranges;  // one per input dimension
  absl::InlinedVector<int, 4> result;    // StridedSlicePlan::sources
};

bool HasBit(int64_t mask, size_t bit) { return (static_cast<uint64_t>(mask) >> bit & 1) != 0; }

absl::StatusOr<DenseSpecification> SpellOut(const Shape& input, absl::Span<const int64_t> begin,
                                            absl::Span<const int64_t> end, absl::Span<const int64_t> strides,
                                            const StridedSliceMasks& masks) {
  const int rank = input.rank();
  const size_t count = begin.size();
  DenseSpecification dense;
  bool seen_ellipsis = false;
  const auto add_whole = [&](int up_to) {
    while (static_cast<int>(dense.ranges.size()) < up_to) {
      dense.result.push_back(static_cast<int>(dense.ranges.size()));
      dense.ranges.push_back(Range());
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if (HasBit(masks.ellipsis, i)) {
      if (seen_ellipsis) return absl::InvalidArgumentError("Multiple ellipses in slice spec not allowed");
      seen_ellipsis = true;
      int behind = 0;  // input dimensions that the entries behind the ellipsis take
      for (size_t j = i + 1; j < count; ++j) behind += HasBit(masks.new_axis, j) ? 0 : 1;
      add_whole(std::max<int>(rank - behind, 0));
    } else if (HasBit(masks.new_axis, i)) {
      dense.result.push_back(kNewAxis);
    } else {
      const int index = static_cast<int>(dense.ranges.size());
      if (index >= rank) {
        return absl::InvalidArgumentError(
            absl::StrCat("slice has more ranges than the dimensions of ", input.ToString()));
      }
      dense.ranges.push_back({begin[i], end[i], strides[i], HasBit(masks.begin, i), HasBit(masks.end, i),
                              HasBit(masks.shrink_axis, i)});
      if (!HasBit(masks.shrink_axis, i)) dense.result.push_back(index);
    }
  }
  add_whole(rank);
  return dense;
}

// A bound of a range with negative values counted from the end, cut to what a walk in this direction can
// reach.
int64_t Clamp(int64_t bound, int64_t dim, bool forward) {
  if (bound < 0) bound += dim;
  return forward ? std::clamp<int64_t>(bound, 0, dim) : std::clamp<int64_t>(bound, -1, dim - 1);
}

absl::Status PlanDimension(const Range& range, int64_t dim, size_t index, StridedSlicePlan* plan) {
  if (range.stride == 0)
    return absl::InvalidArgumentError(absl::StrCat("strides[", index, "] must be non-zero"));
  if (range.shrink) {
    if (range.stride < 0) {
      return absl::InvalidArgumentError(absl::StrCat("only stride 1 allowed on non-range indexing, strides[",
                                                     index, "] is ", range.stride));
    }
    const int64_t at = range.begin < 0 ? range.begin + dim : range.begin;
    if (at < 0 || at >= dim) {
      return absl::InvalidArgumentError(absl::StrCat("slice index ", range.begin, " of dimension ", index,
                                                     " out of bounds [0, ", dim, ")"));
    }
    plan->begins.push_back(at);
    plan->sizes.push_back(1);
    plan->steps.push_back(0);
    return absl::OkStatus();
  }
  const bool forward = range.stride > 0;
  const int64_t begin = range.whole_begin ? (forward ? 0 : dim - 1) : Clamp(range.begin, dim, forward);
  const int64_t end = range.whole_end ? (forward ? dim : -1) : Clamp(range.end, dim, forward);
  const int64_t distance = end - begin;
  const bool empty = distance == 0 || (distance < 0) != (range.stride < 0);
  const int64_t size = empty ? 0 : distance / range.stride + (distance % range.stride != 0 ? 1 : 0);
  plan->begins.push_back(begin);
  plan->sizes.push_back(size);
  plan->steps.push_back(size > 1 ? range.stride : 0);  // a huge stride is never multiplied
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StridedSlicePlan> PlanStridedSlice(const Shape& input, absl::Span<const int64_t> begin,
                                                  absl::Span<const int64_t> end,
                                                  absl::Span<const int64_t> strides,
                                                  const StridedSliceMasks& masks) {
  if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin, end and strides must have one length of at most 32, have ", begin.size(), ", ",
                     end.size(), " and ", strides.size()));
  }
  WEIR_ASSIGN_OR_RETURN(const DenseSpecification dense, SpellOut(input, begin, end, strides, masks));
  StridedSlicePlan plan;
  for (size_t i = 0; i < dense.ranges.size(); ++i) {
    WEIR_RETURN_IF_ERROR(PlanDimension(dense.ranges[i], input.dim(static_cast<int>(i)), i, &plan));
  }
  Dims dims;
  for (int source : dense.result) dims.push_back(source == kNewAxis ? 1 : plan.sizes[source]);
  WEIR_ASSIGN_OR_RETURN(plan.shape, Shape::FromDims(dims));
  plan.sources = dense.result;
  return plan;
}

}  // namespace weir
