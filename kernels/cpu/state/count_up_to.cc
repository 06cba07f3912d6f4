// ResourceCountUpTo: a variable that counts, up to a limit.
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Gives the variable's value, and adds 1 to it. OutOfRange where that would be more than `limit`.
template <typename T>
class CountUpTo final : public Kernel {
 public:
  explicit CountUpTo(const KernelConstruction& construction) : limit_(construction.attr<int64_t>("limit")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    if (!variable.tensor.is_valid()) return UninitializedVariable(target.name);
    if (variable.dtype != DTypeOf<T> || !variable.tensor.shape().is_scalar()) {
      return absl::InvalidArgumentError(absl::StrCat("input is not a scalar of ", DTypeName(DTypeOf<T>),
                                                     ": '", target.name, "' is ",
                                                     TypeString(variable.dtype, variable.tensor.shape())));
    }
    const T value = variable.tensor.scalar<T>();
    if (int64_t{value} >= limit_ || value == std::numeric_limits<T>::max()) {
      return absl::OutOfRangeError(absl::StrCat("Reached limit of ", limit_));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, context.device()));
    next.flat<T>()[0] = value + 1;
    variable.tensor = std::move(next);
    context.set_output(0, Tensor::Scalar(value));
    return absl::OkStatus();
  }

 private:
  const int64_t limit_;
};

}  // namespace

void RegisterCountUpToKernels(DeviceKernels& kernels) {
  kernels.Add<CountUpTo>("ResourceCountUpTo", Types<int32_t, int64_t>("T"));
}

}  // namespace weir
