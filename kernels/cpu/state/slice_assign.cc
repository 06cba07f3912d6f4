// ResourceStridedSliceAssign.
#include "graph/types/status_macros.h"
#include "kernels/cpu/array/slice_view.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/state/slices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class StridedSliceAssign final : public Kernel {
 public:
  explicit StridedSliceAssign(const KernelConstruction& construction) : masks_(ReadMasks(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& value = context.input(4);
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckRead(variable, target.name, value.dtype()));
    WEIR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, ReadPlan(context, variable.tensor.shape(), 1, masks_));
    WEIR_RETURN_IF_ERROR(CheckUpdatesSlice(context, plan, value));
    if (plan.shape.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWriteInPart(variable, context.device()));
    UpdateSlice(plan, value, next, context.threads());
    variable.tensor = std::move(next);
    return absl::OkStatus();
  }

 private:
  const StridedSliceMasks masks_;
};

}  // namespace

void RegisterSliceAssignKernels(DeviceKernels& kernels) {
  kernels.Add<StridedSliceAssign>("ResourceStridedSliceAssign", {{"T", AllDTypes()}});
}

}  // namespace weir
