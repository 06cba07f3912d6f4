// The activation with a parameter, LeakyRelu; activation_table.h has the others.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.3;  // nanoseconds per element on one core

// x where it is positive, else alpha * x.
template <typename T>
class LeakyRelu final : public Kernel {
 public:
  explicit LeakyRelu(const KernelConstruction& construction) : alpha_(construction.attr<float>("alpha")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& features = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, features.shape()));
    const T* x = features.flat<T>().data();
    T* y = output->flat<T>().data();
    const Wide alpha = static_cast<Wide>(alpha_);
    context.threads().ParallelFor(features.num_elements(), kCost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Wide value = static_cast<Wide>(x[i]);
        y[i] = T(value > Wide(0) ? value : value * alpha);
      }
    });
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;
  const float alpha_;
};

// The gradient where the feature is positive, else alpha times it.
template <typename T>
class LeakyReluGrad final : public Kernel {
 public:
  explicit LeakyReluGrad(const KernelConstruction& construction)
      : alpha_(construction.attr<float>("alpha")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& gradients = context.input(0);
    const Tensor& features = context.input(1);
    if (gradients.shape() != features.shape()) {
      return absl::InvalidArgumentError(absl::StrCat("gradients is ", gradients.shape().ToString(),
                                                     " but features is ", features.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0, 1}, 0, features.shape()));
    const T* dy = gradients.flat<T>().data();
    const T* x = features.flat<T>().data();
    T* dx = output->flat<T>().data();
    const Wide alpha = static_cast<Wide>(alpha_);
    context.threads().ParallelFor(features.num_elements(), kCost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        dx[i] = x[i] > T(0) ? dy[i] : T(static_cast<Wide>(dy[i]) * alpha);
      }
    });
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;
  const float alpha_;
};

}  // namespace

void RegisterActivationsKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<LeakyRelu>("LeakyRelu", types);
  kernels.Add<LeakyReluGrad>("LeakyReluGrad", types);
}

}  // namespace weir
