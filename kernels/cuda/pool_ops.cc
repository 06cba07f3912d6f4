// MaxPool, AvgPool and their gradients.
#include <memory>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/pool_operands.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/pool_launches.h"

namespace weir::cuda {
namespace {

class PoolKernel : public CudaKernel {
 protected:
  PoolKernel(const KernelConstruction& construction, PoolWindows windows)
      : CudaKernel(construction), windows_(std::move(windows)) {}

  const PoolWindows windows_;
};

// Makes a `Pool` of checked attrs.
template <typename Pool>
struct Checked {
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(PoolWindows windows, PoolWindows::Of(construction));
    return std::make_unique<Pool>(construction, std::move(windows));
  }
};

template <absl::Status (*launch)(CudaStream&, const CudaKernelTable&, const WindowGeometry&, const Tensor&,
                                 Tensor&)>
class ForwardPool final : public PoolKernel {
 public:
  ForwardPool(const KernelConstruction& construction, PoolWindows windows)
      : PoolKernel(construction, std::move(windows)) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.Geometry(context, input.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, PooledShape(geometry)));
    return launch(stream(), kernels(), geometry, input, *output);
  }
};

// Of orig_output only the shape is looked at, as on the CPU.
class MaxPoolGrad final : public PoolKernel {
 public:
  MaxPoolGrad(const KernelConstruction& construction, PoolWindows windows)
      : PoolKernel(construction, std::move(windows)) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.OfMaxPoolGrad(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
    return LaunchMaxPoolGrad(stream(), kernels(), geometry, context.input(0), context.input(2), *output);
  }
};

class AvgPoolGrad final : public PoolKernel {
 public:
  AvgPoolGrad(const KernelConstruction& construction, PoolWindows windows)
      : PoolKernel(construction, std::move(windows)) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.OfAvgPoolGrad(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, geometry.ImageShape(geometry.input, geometry.channels)));
    return LaunchAvgPoolGrad(stream(), kernels(), geometry, context.input(1), *output);
  }
};

}  // namespace

void RegisterPoolOps(DeviceKernels& kernels) {
  const DeviceKernels::TypeAttrs types = {
      {"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}};
  kernels.Add<Checked<ForwardPool<LaunchMaxPool>>>("MaxPool", types);
  kernels.Add<Checked<MaxPoolGrad>>("MaxPoolGrad", types);
  kernels.Add<Checked<ForwardPool<LaunchAvgPool>>>("AvgPool", types);
  kernels.Add<Checked<AvgPoolGrad>>("AvgPoolGrad", types);
}

}  // namespace weir::cuda
