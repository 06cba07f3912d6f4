// ApproximateEqual.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
class ApproximateEqual final : public Kernel {
 public:
  explicit ApproximateEqual(const KernelConstruction& construction)
      : tolerance_(static_cast<T>(construction.attr<float>("tolerance"))) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &x = context.input(0), &y = context.input(1);
    if (x.shape() != y.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("x and y must be of the same shape. x shape: ", x.shape().ToString(),
                       ". y shape: ", y.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, x.shape()));
    const T *const a = x.flat<T>().data(), *const b = y.flat<T>().data();
    bool* const z = output->flat<bool>().data();
    context.threads().ParallelFor(x.num_elements(), 1, [=, this](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) z[i] = std::abs(a[i] - b[i]) < tolerance_;
    });
    return absl::OkStatus();
  }

 private:
  const T tolerance_;
};

}  // namespace

void RegisterApproximateEqualKernels(DeviceKernels& kernels) {
  kernels.Add<ApproximateEqual>("ApproximateEqual", Types<float, double>("T"));
}

}  // namespace weir
