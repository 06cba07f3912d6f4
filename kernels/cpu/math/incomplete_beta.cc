// Betainc.
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/special_functions.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 500;  // nanoseconds per element on one core

// The shape of the inputs that are no scalars.
absl::StatusOr<Shape> CommonShape(KernelContext& context) {
  constexpr const char* kNames[] = {"a", "b", "x"};
  int first = 0;
  while (first < 2 && context.input(first).shape().is_scalar()) ++first;
  const Shape& shape = context.input(first).shape();
  for (int i = first + 1; i < 3; ++i) {
    const Shape& other = context.input(i).shape();
    if (other.is_scalar() || other == shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(kNames[i], " is ", other.ToString(), " where ",
                                                   kNames[first], " is ", shape.ToString(),
                                                   ": those that are no scalars must have one shape"));
  }
  return shape;
}

template <typename T>
absl::Status IncompleteBetas(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, CommonShape(context));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0, 1, 2}, 0, shape));
  const T* from[3];
  int64_t steps[3];
  for (int i = 0; i < 3; ++i) {
    from[i] = context.input(i).flat<T>().data();
    steps[i] = context.input(i).shape().is_scalar() ? 0 : 1;
  }
  T* to = output->flat<T>().data();
  context.threads().ParallelFor(output->num_elements(), kCost, [&](int64_t begin, int64_t end) {
    const auto at = [&](int input, int64_t i) { return static_cast<double>(from[input][i * steps[input]]); };
    for (int64_t i = begin; i < end; ++i)
      to[i] = static_cast<T>(IncompleteBeta(at(0, i), at(1, i), at(2, i)));
  });
  return absl::OkStatus();
}

template <typename T>
using IncompleteBetaKernel = FunctionKernel<IncompleteBetas<T>>;

}  // namespace

void RegisterIncompleteBetaKernels(DeviceKernels& kernels) {
  kernels.Add<IncompleteBetaKernel>("Betainc", Types<float, double>("T"));
}

}  // namespace weir
