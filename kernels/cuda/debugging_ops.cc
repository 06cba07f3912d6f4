// CheckNumerics.
#include <string>

#include "kernels/cpu/argument_checks.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/data_check_bodies.h"
#include "kernels/cuda/data_check_launches.h"

namespace weir::cuda {
namespace {

// The text of the error shows elements, so the tensor stays until the step is over.
class CheckNumerics final : public CudaKernel {
 public:
  explicit CheckNumerics(const KernelConstruction& construction)
      : CudaKernel(construction), message_(construction.attr<std::string>("message")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& tensor = context.input(0);
    context.set_output(0, tensor);
    const auto explain = [message = message_](absl::Span<const Tensor> on_host, const DataError& found) {
      return NotFinite(message, found.kinds[kFoundNan] != 0, found.kinds[kFoundInfinity] != 0, on_host[0]);
    };
    return Check(context, {tensor}, explain, [&](const DataErrorPlace& place) {
      return LaunchCheckNumerics(stream(), kernels(), tensor, place);
    });
  }

  const std::string message_;
};

}  // namespace

void RegisterDebuggingOps(DeviceKernels& kernels) {
  kernels.Add<CheckNumerics>("CheckNumerics",
                             {{"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}});
}

}  // namespace weir::cuda
