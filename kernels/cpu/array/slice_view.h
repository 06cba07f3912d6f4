// Slices of tensors as views of their elements: what kernels that read and change slices share.
//
// Thread safety: pure functions, of a kernel's own context.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/array/strided_slice.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/kernel.h"

namespace weir {

// The five attrs of the op.
StridedSliceMasks ReadMasks(const KernelConstruction& construction);

// The plan for the specification in three inputs from `first` on. Errors: PlanStridedSlice's.
absl::StatusOr<StridedSlicePlan> ReadPlan(KernelContext& context, const Shape& sliced, int first,
                                          const StridedSliceMasks& masks);

// The elements of a dense tensor of `shape` that the plan takes: one loop for each of its dimensions.
StridedView SlicedView(const Shape& shape, const StridedSlicePlan& plan);

// Whether a value broadcasts to the slice, where dimensions of 1 in front of it do not count; any does to a
// slice without elements. InvalidArgument when not, ResourceExhausted when there is no room for its strings.
absl::Status CheckUpdatesSlice(KernelContext& context, const StridedSlicePlan& plan, const Tensor& value);

// Writes the value to the slice of `target`. Preconditions: CheckUpdatesSlice, and a plan for its shape.
void UpdateSlice(const StridedSlicePlan& plan, const Tensor& value, Tensor& target, ThreadPool& threads);

}  // namespace weir
