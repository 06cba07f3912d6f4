#include "kernels/cpu/array/slice_view.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/string_room.h"

namespace weir {

StridedSliceMasks ReadMasks(const KernelConstruction& construction) {
  return {construction.attr<int64_t>("begin_mask"), construction.attr<int64_t>("end_mask"),
          construction.attr<int64_t>("ellipsis_mask"), construction.attr<int64_t>("new_axis_mask"),
          construction.attr<int64_t>("shrink_axis_mask")};
}

absl::StatusOr<StridedSlicePlan> ReadPlan(KernelContext& context, const Shape& sliced, int first,
                                          const StridedSliceMasks& masks) {
  WEIR_ASSIGN_OR_RETURN(const Dims begin, ReadIntegers(context.input(first), "begin"));
  WEIR_ASSIGN_OR_RETURN(const Dims end, ReadIntegers(context.input(first + 1), "end"));
  WEIR_ASSIGN_OR_RETURN(const Dims strides, ReadIntegers(context.input(first + 2), "strides"));
  return PlanStridedSlice(sliced, begin, end, strides, masks);
}

StridedView SlicedView(const Shape& shape, const StridedSlicePlan& plan) {
  StridedView view{0, RowMajorStrides(shape.dims())};
  for (size_t i = 0; i < plan.begins.size(); ++i) {
    // An empty slice may begin outside the tensor; nothing is read there.
    view.offset += plan.sizes[i] == 0 ? 0 : plan.begins[i] * view.strides[i];
    view.strides[i] *= plan.steps[i];
  }
  return view;
}

absl::Status CheckUpdatesSlice(KernelContext& context, const StridedSlicePlan& plan, const Tensor& value) {
  if (plan.shape.num_elements() == 0) return absl::OkStatus();
  const int extra = value.shape().rank() - plan.shape.rank();
  for (int i = 0; i < value.shape().rank(); ++i) {
    const int64_t dim = value.shape().dim(i);
    if (dim == 1 || (i >= extra && dim == plan.shape.dim(i - extra))) continue;
    return absl::InvalidArgumentError(absl::StrCat("Cannot broadcast input shape ", value.shape().ToString(),
                                                   " into final shape ", plan.shape.ToString()));
  }
  return CheckRoomForStrings(context, value, plan.shape.num_elements());
}

void UpdateSlice(const StridedSlicePlan& plan, const Tensor& value, Tensor& target, ThreadPool& threads) {
  if (plan.shape.num_elements() == 0) return;
  const StridedView taken = SlicedView(target.shape(), plan);
  const Dims value_strides = RowMajorStrides(value.shape().dims());
  const int rank = plan.shape.rank(), extra = value.shape().rank() - rank;
  StridedView from{0, Dims(rank, 0)}, to{taken.offset, Dims(rank, 0)};
  for (int i = 0; i < rank; ++i) {
    const int source = plan.sources[i];
    if (source != StridedSlicePlan::kNewAxis) to.strides[i] = taken.strides[source];
    const bool is_repeated = i + extra < 0 || value.shape().dim(i + extra) == 1;
    if (!is_repeated) from.strides[i] = value_strides[i + extra];
  }
  StridedCopy(plan.shape.dims(), value, from, target, to, threads);
}

}  // namespace weir
