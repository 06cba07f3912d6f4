// Softmax and LogSoftmax.
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kSoftmaxCost = 1.0;  // nanoseconds per element on one core

template <typename T, void (*softmax)(int64_t, int64_t, const ComputeType<T>*, ComputeType<T>*)>
absl::Status ComputeSoftmax(KernelContext& context) {
  using Wide = ComputeType<T>;
  const Tensor& logits = context.input(0);
  if (logits.shape().rank() < 1)
    return absl::InvalidArgumentError("logits must have a class dimension, are a scalar");
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, logits.shape()));
  if (logits.num_elements() == 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, logits));
  WEIR_ASSIGN_OR_RETURN(Tensor y, WideOutput(context, *output));
  const int64_t columns = logits.shape().dim(logits.shape().rank() - 1);
  const Wide* from = x.flat<Wide>().data();
  Wide* to = y.flat<Wide>().data();
  context.threads().ParallelFor(logits.num_elements() / columns, kSoftmaxCost * static_cast<double>(columns),
                                [=](int64_t begin, int64_t end) {
                                  softmax(end - begin, columns, from + begin * columns, to + begin * columns);
                                });
  Narrow(context, y, output);
  return absl::OkStatus();
}

template <typename T>
using SoftmaxKernel = FunctionKernel<ComputeSoftmax<T, Softmax<ComputeType<T>>>>;
template <typename T>
using LogSoftmaxKernel = FunctionKernel<ComputeSoftmax<T, LogSoftmax<ComputeType<T>>>>;

}  // namespace

void RegisterSoftmaxKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<SoftmaxKernel>("Softmax", types);
  kernels.Add<LogSoftmaxKernel>("LogSoftmax", types);
}

}  // namespace weir
