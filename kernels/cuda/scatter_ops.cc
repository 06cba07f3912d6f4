// ResourceScatter*: updates of rows of a variable that indices name.
//
// The indices are sorted, so that one thread has an element and takes its updates in the order of the
// indices, as the CPU does it: the result is the same every time. As with all updates, the variable keeps its
// value where something is found wrong, and its lock is held while work is enqueued.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/indexed_launches.h"
#include "kernels/cuda/row_sort.h"

namespace weir::cuda {
namespace {

class Scatter final : public CudaKernel {
 public:
  explicit Scatter(const KernelConstruction& construction)
      : CudaKernel(construction), op_(absl::StripPrefix(construction.node().op_name(), "Resource")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& indices = context.input(1);
    const Tensor& updates = context.input(2);
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckRead(variable, target.name, updates.dtype()));
    const Shape shape = variable.tensor.shape();
    WEIR_RETURN_IF_ERROR(CheckHasRows(shape));
    WEIR_ASSIGN_OR_RETURN(const GatheredSlices rows, PlanRows(shape, indices.shape()));
    WEIR_RETURN_IF_ERROR(CheckSliceUpdates(variable.tensor, target.name, rows.shape.dims(), updates,
                                           /*allows_scalar=*/true));
    if (indices.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToUpdate(variable, device()));
    const auto explain = [limit = rows.limit](absl::Span<const Tensor> on_host, const DataError&) {
      return CheckIndices("indices", on_host[0], limit);
    };
    WEIR_RETURN_IF_ERROR(Check(context, {indices}, explain, [&](const DataErrorPlace& place) {
      return Update(context, indices, updates, rows, place, next);
    }));
    variable.tensor = std::move(next);
    return absl::OkStatus();
  }

  absl::Status Update(KernelContext& context, const Tensor& indices, const Tensor& updates,
                      const GatheredSlices& rows, const DataErrorPlace& place, Tensor& next) const {
    if (rows.inner == 0) return LaunchCheckIndices(stream(), kernels(), indices, rows.limit, place);
    WEIR_ASSIGN_OR_RETURN(const RowOrder order,
                          SortRows(context, device(), indices, rows.limit, NegativeIndices::kBad, place));
    return LaunchScatterRows(stream(), kernels(), op_, order, rows.inner, updates, next, place.here);
  }

  const std::string op_;  // "ScatterAdd"
};

}  // namespace

void RegisterScatterOps(DeviceKernels& kernels) {
  const std::vector<DType> floats = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
  std::vector<DType> numbers = floats;
  numbers.insert(numbers.end(), {DType::kInt32, DType::kInt64});
  std::vector<DType> any = numbers;
  any.push_back(DType::kBool);
  const auto add = [&](const char* op, const std::vector<DType>& dtypes) {
    kernels.Add<Scatter>(op, {{"dtype", dtypes}, {"Tindices", {DType::kInt32, DType::kInt64}}});
  };
  add("ResourceScatterAdd", numbers);
  add("ResourceScatterSub", numbers);
  add("ResourceScatterMul", numbers);
  add("ResourceScatterMin", numbers);
  add("ResourceScatterMax", numbers);
  add("ResourceScatterDiv", floats);  // integers may be divided by zero
  add("ResourceScatterUpdate", any);
}

}  // namespace weir::cuda
