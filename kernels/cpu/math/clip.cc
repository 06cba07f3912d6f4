// ClipByValue.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.4;  // nanoseconds per element on one core

// A limit is one for all elements, or one for each. NaN stays NaN; of limits that cross, the lower one wins.
template <typename T>
absl::Status Clip(KernelContext& context) {
  const Tensor& t = context.input(0);
  int64_t steps[3];
  for (int i = 1; i < 3; ++i) {
    const Shape& shape = context.input(i).shape();
    if (shape.rank() > 0 && shape != t.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "clip_value_min" : "clip_value_max",
                                                     " must be a scalar or have the shape of t, ",
                                                     t.shape().ToString(), ", is ", shape.ToString()));
    }
    steps[i] = shape.rank() > 0 ? 1 : 0;
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, t.shape()));
  using Wide = ComputeType<T>;
  const T* from = t.flat<T>().data();
  const T* low = context.input(1).flat<T>().data();
  const T* high = context.input(2).flat<T>().data();
  T* to = output->flat<T>().data();
  context.threads().ParallelFor(t.num_elements(), kCost, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Wide x = static_cast<Wide>(from[i]);
      const Wide least = static_cast<Wide>(low[i * steps[1]]), most = static_cast<Wide>(high[i * steps[2]]);
      x = x > most ? most : x;
      to[i] = T(x < least ? least : x);
    }
  });
  return absl::OkStatus();
}

template <typename T>
using ClipKernel = FunctionKernel<Clip<T>>;

}  // namespace

void RegisterClipKernels(DeviceKernels& kernels) {
  kernels.Add<ClipKernel>("ClipByValue", Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t,
                                               int64_t, uint8_t, uint16_t, uint32_t, uint64_t>("T"));
}

}  // namespace weir
