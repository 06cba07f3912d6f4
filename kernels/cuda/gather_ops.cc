// GatherV2 and ResourceGather. Indices are looked at on the GPU: where one is out of range, its slice is
// zeros, variables stay as they are, and the step has the CPU's error when somebody waits for it.
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/indexed_launches.h"

namespace weir::cuda {
namespace {

class Gather : public CudaKernel {
 public:
  explicit Gather(const KernelConstruction& construction)
      : CudaKernel(construction), batch_dims_(construction.attr<int64_t>("batch_dims")) {}

 protected:
  int64_t batch_dims() const { return batch_dims_; }

  absl::Status Copy(KernelContext& context, const Tensor& params, const Tensor& indices,
                    const GatheredSlices& slices) const {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, slices.shape));
    if (indices.num_elements() == 0) return absl::OkStatus();
    const auto explain = [limit = slices.limit](absl::Span<const Tensor> on_host, const DataError&) {
      return CheckIndices("indices", on_host[0], limit);
    };
    return Check(context, {indices}, explain, [&](const DataErrorPlace& place) {
      return LaunchGather(stream(), kernels(), params, indices,
                          {.batches = slices.batches,
                           .outer = slices.outer,
                           .limit = slices.limit,
                           .count = slices.count,
                           .inner = slices.inner},
                          *output, place);
    });
  }

 private:
  const int64_t batch_dims_;
};

class GatherV2 final : public Gather {
 public:
  using Gather::Gather;

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& params = context.input(0);
    const Tensor& indices = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const GatheredSlices slices,
                          PlanGather(params.shape(), indices.shape(), context.input(2), batch_dims()));
    return Copy(context, params, indices, slices);
  }
};

// The variable's lock is held while work is enqueued: updates come before it or after it.
class ResourceGather final : public Gather {
 public:
  using Gather::Gather;

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
    const Variable& variable = *source.variable;
    const Tensor& indices = context.input(1);
    absl::ReaderMutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckRead(variable, source.name, context.output_type(0)));
    WEIR_ASSIGN_OR_RETURN(const GatheredSlices slices,
                          PlanRows(variable.tensor.shape(), indices.shape(), batch_dims()));
    return Copy(context, variable.tensor, indices, slices);
  }
};

}  // namespace

void RegisterGatherOps(DeviceKernels& kernels) {
  std::vector<DType> dtypes;
  for (const DType dtype : AllDTypes()) {
    if (IsPlainBytes(dtype)) dtypes.push_back(dtype);
  }
  const std::vector<DType> indices = {DType::kInt32, DType::kInt64};
  kernels.Add<GatherV2>("GatherV2", {{"Tparams", dtypes}, {"Tindices", indices}});
  kernels.Add<ResourceGather>("ResourceGather", {{"dtype", dtypes}, {"Tindices", indices}});
}

}  // namespace weir::cuda
