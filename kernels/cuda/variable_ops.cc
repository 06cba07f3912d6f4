// Updates of variables: Assign, AssignAdd, AssignSub, and a step of an optimizer.
//
// As on the CPU, an update runs in place when the variable alone holds its buffer; else a copy takes its
// place, made on the device. The variables' locks are held while work is enqueued, so its order is that of
// the updates. In a step whose data are looked at on the device, the variable keeps its value when they are
// found wrong, which the host does not know yet.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/training/rules.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/data_check_launches.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/cuda/update_launches.h"

namespace weir::cuda {
namespace {

// Where an update in place goes: the variable's tensor, or a copy of it.
absl::StatusOr<Tensor> TensorToUpdate(const Variable& variable, CudaDevice& device)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex) {
  WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, device));
  const Tensor& now = variable.tensor;
  if (next.data() != now.data() && now.num_bytes() > 0) {
    WEIR_RETURN_IF_ERROR(device.stream().Copy(CudaCopy::kOnDevice, next.data(), now.data(), now.num_bytes()));
  }
  return next;
}

class Accumulate final : public CudaKernel {
 public:
  explicit Accumulate(const KernelConstruction& construction)
      : CudaKernel(construction),
        op_(construction.node().op_name() == "AssignAddVariableOp" ? "AddV2" : "Sub") {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& value = context.input(1);
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    WEIR_RETURN_IF_ERROR(CheckUpdate(variable, target.name, "the value", value));
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, device()));
    const volatile DataError* const notes = NotesOf(context);
    if (notes == nullptr) {
      WEIR_RETURN_IF_ERROR(LaunchBinary(stream(), kernels(), op_, variable.tensor, value, next));
    } else {
      WEIR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemporary(value.dtype(), value.shape()));
      WEIR_RETURN_IF_ERROR(LaunchBinary(stream(), kernels(), op_, variable.tensor, value, sum));
      WEIR_RETURN_IF_ERROR(LaunchChoose(stream(), kernels(), sum, variable.tensor, notes, next));
    }
    variable.tensor = std::move(next);
    return absl::OkStatus();
  }

  const char* const op_;
};

// The CPU's Assign, which hands the value over. Where it may have to be taken back, or is recorded and the
// variable must stay where it is, the variable's own tensor becomes the value; a new one if others read that.
class Assign final : public CudaKernel {
 public:
  Assign(const KernelConstruction& construction, std::unique_ptr<Kernel> of_host)
      : CudaKernel(construction), of_host_(std::move(of_host)) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const volatile DataError* const notes = NotesOf(context);
    if (notes == nullptr && !device().is_recording()) return of_host_->Compute(context);
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    Variable& variable = *target.variable;
    const Tensor& value = context.input(1);
    Tensor old;
    {
      absl::MutexLock lock(&variable.mutex);
      if (MayHold(variable.tensor, value) && variable.tensor.has_exclusive_buffer()) {
        return Take(value, notes, variable.tensor);
      }
      old = variable.tensor;
    }
    if (device().is_recording()) return absl::AbortedError("a variable cannot be assigned where it is");
    WEIR_RETURN_IF_ERROR(of_host_->Compute(context));
    if (!MayHold(old, value)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor next, Tensor::Allocate(value.dtype(), value.shape(), device().allocator()));
    WEIR_RETURN_IF_ERROR(LaunchChoose(stream(), kernels(), value, old, notes, next));
    absl::MutexLock lock(&variable.mutex);
    // Somebody else may have changed it by now.
    if (variable.tensor.data() == value.data()) variable.tensor = std::move(next);
    return absl::OkStatus();
  }

  static bool MayHold(const Tensor& tensor, const Tensor& value) {
    return tensor.is_valid() && tensor.dtype() == value.dtype() && tensor.shape() == value.shape() &&
           IsPlainBytes(value.dtype());
  }

  absl::Status Take(const Tensor& value, const volatile DataError* notes, Tensor& tensor) {
    if (notes != nullptr) return LaunchChoose(stream(), kernels(), value, tensor, notes, tensor);
    if (value.num_bytes() == 0) return absl::OkStatus();
    return stream().Copy(CudaCopy::kOnDevice, tensor.data(), value.data(), value.num_bytes());
  }

  const std::unique_ptr<Kernel> of_host_;
};

template <typename Rule>
struct NamesOf;
template <typename T>
struct NamesOf<GradientDescentRule<T>> {
  static constexpr const char* kRule = "GradientDescent";
  static constexpr const char* kFlag = nullptr;
  static constexpr const char* kScalars[] = {"alpha"};
};
template <typename T>
struct NamesOf<MomentumRule<T>> {
  static constexpr const char* kRule = "Momentum";
  static constexpr const char* kFlag = "use_nesterov";
  static constexpr const char* kScalars[] = {"lr", "momentum"};
};
template <typename T>
struct NamesOf<KerasMomentumRule<T>> : NamesOf<MomentumRule<T>> {
  static constexpr const char* kRule = "KerasMomentum";
};
template <typename T>
struct NamesOf<AdamRule<T>> {
  static constexpr const char* kRule = "Adam";
  static constexpr const char* kFlag = "use_nesterov";
  static constexpr const char* kScalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
};
template <typename T>
struct NamesOf<AdaMaxRule<T>> {
  static constexpr const char* kRule = "AdaMax";
  static constexpr const char* kFlag = nullptr;
  static constexpr const char* kScalars[] = {"beta1_power", "lr", "beta1", "beta2", "epsilon"};
};
template <typename T>
struct NamesOf<AdagradRule<T>> {
  static constexpr const char* kRule = "Adagrad";
  static constexpr const char* kFlag = "update_slots";
  static constexpr const char* kScalars[] = {"lr"};
};
template <typename T>
struct NamesOf<AdagradV2Rule<T>> {
  static constexpr const char* kRule = "AdagradV2";
  static constexpr const char* kFlag = "update_slots";
  static constexpr const char* kScalars[] = {"lr", "epsilon"};
};
template <typename T>
struct NamesOf<RMSPropRule<T>> {
  static constexpr const char* kRule = "RMSProp";
  static constexpr const char* kFlag = nullptr;
  static constexpr const char* kScalars[] = {"lr", "rho", "momentum", "epsilon"};
};
template <typename T>
struct NamesOf<CenteredRMSPropRule<T>> : NamesOf<RMSPropRule<T>> {
  static constexpr const char* kRule = "CenteredRMSProp";
};
template <typename T>
struct NamesOf<FtrlRule<T>> {
  static constexpr const char* kRule = "Ftrl";
  static constexpr const char* kFlag = "multiply_linear_by_lr";
  static constexpr const char* kScalars[] = {"lr", "l1", "l2", "lr_power"};
};
template <typename T>
struct NamesOf<FtrlV2Rule<T>> {
  static constexpr const char* kRule = "FtrlV2";
  static constexpr const char* kFlag = "multiply_linear_by_lr";
  static constexpr const char* kScalars[] = {"lr", "l1", "l2", "lr_power", "l2_shrinkage"};
};

// What the CPU's kernel says of scalars that the rule refuses.
template <typename T, bool has_shrinkage>
absl::Status WhyRefused(const AnyFtrlRule<T, has_shrinkage>*, absl::Span<const Tensor> scalars,
                        bool multiply_linear_by_lr) {
  std::vector<T> values;
  for (const Tensor& scalar : scalars) values.push_back(scalar.flat<T>()[0]);
  return rules::AnyFtrl<T, has_shrinkage>::Check(values.data(), multiply_linear_by_lr);
}

template <typename Rule>
class Apply final : public CudaKernel {
  using Names = NamesOf<Rule>;
  static_assert(std::size(Names::kScalars) == Rule::kScalars);

 public:
  explicit Apply(const KernelConstruction& construction)
      : CudaKernel(construction),
        gradient_(std::max(InputOf(construction, "grad"), InputOf(construction, "delta"))) {
    for (int i = 0; i < Rule::kScalars; ++i) scalars_[i] = InputOf(construction, Names::kScalars[i]);
    if constexpr (Names::kFlag != nullptr) flag_ = construction.attr<bool>(Names::kFlag);
  }

 private:
  // -1 when there is none of that name.
  static int InputOf(const KernelConstruction& construction, absl::string_view name) {
    const auto& inputs = construction.node().op().inputs();
    int index = static_cast<int>(inputs.size()) - 1;
    while (index >= 0 && inputs[index].name != name) --index;
    return index;
  }

  // The locks are held, which the analysis cannot see.
  absl::Status Enqueue(KernelContext& context) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::vector<Tensor> scalars;
    for (int i = 0; i < Rule::kScalars; ++i) {
      scalars.push_back(context.input(scalars_[i]));
      if (scalars.back().num_elements() == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(Names::kScalars[i], " must be a scalar, is ",
                       TypeString(scalars.back().dtype(), scalars.back().shape())));
    }
    std::array<NamedVariable, Rule::kArrays> variables;
    for (int i = 0; i < Rule::kArrays; ++i) {
      WEIR_ASSIGN_OR_RETURN(variables[i], LookupVariable(context, i));
    }
    WEIR_RETURN_IF_ERROR(VariableLocks::CheckDistinct(variables));
    const VariableLocks locks(variables);
    UpdatedVariable updated = {.arrays = {}, .gradient = context.input(gradient_)};
    for (const NamedVariable& variable : variables) {
      WEIR_RETURN_IF_ERROR(CheckUpdate(*variable.variable, variable.name, "the gradient", updated.gradient));
    }
    for (const NamedVariable& variable : variables) {
      WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToUpdate(*variable.variable, device()));
      updated.arrays.push_back(std::move(next));
    }
    WEIR_RETURN_IF_ERROR(Launch(context, scalars, updated));
    for (int i = 0; i < Rule::kArrays; ++i) variables[i].variable->tensor = std::move(updated.arrays[i]);
    return absl::OkStatus();
  }

  absl::Status Launch(KernelContext& context, const std::vector<Tensor>& scalars,
                      const UpdatedVariable& updated) const {
    const auto launch = [&](const DataErrorPlace& place) {
      return LaunchUpdates<Rule>(stream(), kernels(), Names::kRule, scalars, flag_, {&updated, 1}, place);
    };
    if constexpr (kChecksScalars<Rule>) {
      const auto explain = [flag = flag_](absl::Span<const Tensor> on_host, const DataError&) {
        return WhyRefused(static_cast<const Rule*>(nullptr), on_host, flag);
      };
      return Check(context, scalars, explain, launch);
    } else {
      return launch({.here = NotesOf(context), .mirror = nullptr, .check = 0});
    }
  }

  const int gradient_;
  std::array<int, Rule::kScalars> scalars_ = {};
  bool flag_ = false;
};

}  // namespace

void RegisterVariableOps(DeviceKernels& kernels) {
  const std::vector<DType> numbers = {DType::kFloat32,  DType::kFloat64, DType::kHalf,
                                      DType::kBfloat16, DType::kInt32,   DType::kInt64};
  kernels.Add<Accumulate>("AssignAddVariableOp", {{"dtype", numbers}});
  kernels.Add<Accumulate>("AssignSubVariableOp", {{"dtype", numbers}});
  VisitRules([&]<typename Rule, typename T>(const char* rule) {
    kernels.Add<Apply<Rule>>(absl::StrCat("ResourceApply", rule), {{"T", {DTypeOf<T>}}});
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAssign(const KernelConstruction& construction,
                                                   std::unique_ptr<Kernel> of_host) {
  return std::make_unique<Assign>(construction, std::move(of_host));
}

}  // namespace weir::cuda
