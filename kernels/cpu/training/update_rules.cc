// ResourceApply*: one step of an optimizer on a variable and its slots, in one pass.
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/training/update_math.h"

namespace weir {
namespace {

// Nanoseconds per element on one core; memory traffic dominates.
constexpr double kSimpleCost = 0.4;
constexpr double kAdamCost = 1.2;

absl::StatusOr<const Tensor*> ScalarInput(KernelContext& context, int input, absl::string_view name) {
  const Tensor& tensor = context.input(input);
  if (tensor.num_elements() == 1) return &tensor;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be a scalar, is ", TypeString(tensor.dtype(), tensor.shape())));
}

// The variables of one update, locked, and where their new values go.
template <typename T, int count>
class LockedUpdate {
 public:
  // Inputs [0, count) are the handles.
  static absl::StatusOr<std::array<NamedVariable, count>> Lookup(KernelContext& context) {
    std::array<NamedVariable, count> variables;
    for (int i = 0; i < count; ++i) {
      WEIR_ASSIGN_OR_RETURN(variables[i], LookupVariable(context, i));
    }
    WEIR_RETURN_IF_ERROR(VariableLocks::CheckDistinct(variables));
    return variables;
  }

  explicit LockedUpdate(const std::array<NamedVariable, count>& variables)
      : variables_(variables), locks_(variables) {}

  // The locks are held, which the analysis cannot see.
  absl::Status Begin(KernelContext& context, const Tensor& gradient) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < count; ++i) {
      WEIR_RETURN_IF_ERROR(
          CheckUpdate(*variables_[i].variable, variables_[i].name, "the gradient", gradient));
      WEIR_ASSIGN_OR_RETURN(next_[i], TensorToWrite(*variables_[i].variable, context.device().allocator()));
    }
    return absl::OkStatus();
  }
  UpdatedArray<T> array(int i, int64_t offset) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return {static_cast<const T*>(variables_[i].variable->tensor.data()) + offset,
            static_cast<T*>(next_[i].data()) + offset};
  }
  void Finish() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < count; ++i) variables_[i].variable->tensor = std::move(next_[i]);
  }

 private:
  const std::array<NamedVariable, count>& variables_;
  std::array<Tensor, count> next_;
  const VariableLocks locks_;
};

// Looks up and locks `count` variables, then calls update(locked, begin, end) on ranges of their elements.
template <typename T, int count, typename Update>
absl::Status ApplyGradient(KernelContext& context, const Tensor& gradient, double cost,
                           const Update& update) {
  using Locked = LockedUpdate<T, count>;
  WEIR_ASSIGN_OR_RETURN(const auto variables, Locked::Lookup(context));
  Locked locked(variables);
  WEIR_RETURN_IF_ERROR(locked.Begin(context, gradient));
  context.threads().ParallelFor(gradient.num_elements(), cost,
                                [&](int64_t begin, int64_t end) { update(locked, begin, end); });
  locked.Finish();
  return absl::OkStatus();
}

template <typename T>
absl::Status ApplyGradientDescent(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Tensor* alpha, ScalarInput(context, 1, "alpha"));
  const Tensor& delta = context.input(2);
  return ApplyGradient<T, 1>(context, delta, kSimpleCost, [&](auto& locked, int64_t begin, int64_t end) {
    GradientDescentUpdate<T>(end - begin, locked.array(0, begin), alpha->scalar<T>(),
                             delta.flat<T>().data() + begin);
  });
}

template <typename T, bool keras>
class ApplyMomentum final : public Kernel {
 public:
  explicit ApplyMomentum(const KernelConstruction& construction)
      : use_nesterov_(construction.attr<bool>("use_nesterov")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Tensor* lr, ScalarInput(context, 2, "lr"));
    WEIR_ASSIGN_OR_RETURN(const Tensor* momentum, ScalarInput(context, 4, "momentum"));
    const Tensor& grad = context.input(3);
    const MomentumCoefficients<T> coefficients = {lr->scalar<T>(), momentum->scalar<T>(), use_nesterov_};
    constexpr auto kUpdate = keras ? &KerasMomentumUpdate<T> : &MomentumUpdate<T>;
    return ApplyGradient<T, 2>(context, grad, kSimpleCost, [&](auto& locked, int64_t begin, int64_t end) {
      kUpdate(end - begin, locked.array(0, begin), locked.array(1, begin), grad.flat<T>().data() + begin,
              coefficients);
    });
  }

 private:
  const bool use_nesterov_;
};

template <typename T>
class ApplyAdam final : public Kernel {
 public:
  explicit ApplyAdam(const KernelConstruction& construction)
      : use_nesterov_(construction.attr<bool>("use_nesterov")) {}

  absl::Status Compute(KernelContext& context) override {
    static constexpr absl::string_view kNames[] = {"beta1_power", "beta2_power", "lr",
                                                   "beta1",       "beta2",       "epsilon"};
    T scalars[6];
    for (int i = 0; i < 6; ++i) {
      WEIR_ASSIGN_OR_RETURN(const Tensor* scalar, ScalarInput(context, 3 + i, kNames[i]));
      scalars[i] = scalar->scalar<T>();
    }
    const auto& [beta1_power, beta2_power, lr, beta1, beta2, epsilon] = scalars;
    const AdamCoefficients<T> coefficients = {StepSize(beta1_power, beta2_power, lr), beta1, beta2, epsilon,
                                              use_nesterov_};
    const Tensor& grad = context.input(9);
    return ApplyGradient<T, 3>(context, grad, kAdamCost, [&](auto& locked, int64_t begin, int64_t end) {
      AdamUpdate<T>(end - begin, locked.array(0, begin), locked.array(1, begin), locked.array(2, begin),
                    grad.flat<T>().data() + begin, coefficients);
    });
  }

 private:
  static T StepSize(T beta1_power, T beta2_power, T lr) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Wide one = 1;
    return T(static_cast<Wide>(lr) * std::sqrt(one - static_cast<Wide>(beta2_power)) /
             (one - static_cast<Wide>(beta1_power)));
  }

  const bool use_nesterov_;
};

template <typename T>
void RegisterOptimizers(KernelRegistry& registry, const std::string& device) {
  const auto add = [&](const char* op, KernelFactory create) {
    registry.Register({.op = op, .device_type = device, .types = {{"T", {DTypeOf<T>}}}, .create = create});
  };
  add("ResourceApplyGradientDescent", CreateKernel<FunctionKernel<ApplyGradientDescent<T>>>);
  add("ResourceApplyMomentum", CreateKernel<ApplyMomentum<T, false>>);
  add("ResourceApplyKerasMomentum", CreateKernel<ApplyMomentum<T, true>>);
  add("ResourceApplyAdam", CreateKernel<ApplyAdam<T>>);
}

}  // namespace

void RegisterTrainingKernels(DeviceKernels& kernels) {
  KernelRegistry& registry = kernels.registry();
  const std::string& device = kernels.device_type();
  RegisterOptimizers<float>(registry, device);
  RegisterOptimizers<double>(registry, device);
  RegisterOptimizers<Half>(registry, device);
  RegisterOptimizers<Bfloat16>(registry, device);
}

}  // namespace weir
