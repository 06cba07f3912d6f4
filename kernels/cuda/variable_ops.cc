// Updates of variables: AssignAdd, AssignSub, and a step of an optimizer.
//
// As on the CPU, an update runs in place when the variable alone holds its buffer; else a copy takes its
// place, made on the device. The variables' locks are held while work is enqueued, so its order is that of
// the updates.
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cuda/cuda_kernel.h"
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
    WEIR_RETURN_IF_ERROR(LaunchBinary(stream(), kernels(), op_, variable.tensor, value, next));
    variable.tensor = std::move(next);
    return absl::OkStatus();
  }

  const char* const op_;
};

template <typename Rule>
struct NamesOf;
template <typename T>
struct NamesOf<GradientDescentRule<T>> {
  static constexpr const char* kRule = "GradientDescent";
  static constexpr const char* kGradient = "delta";
  static constexpr const char* kScalars[] = {"alpha"};
};
template <typename T>
struct NamesOf<MomentumRule<T>> {
  static constexpr const char* kRule = "Momentum";
  static constexpr const char* kGradient = "grad";
  static constexpr const char* kScalars[] = {"lr", "momentum"};
};
template <typename T>
struct NamesOf<AdamRule<T>> {
  static constexpr const char* kRule = "Adam";
  static constexpr const char* kGradient = "grad";
  static constexpr const char* kScalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
};

template <typename Rule>
class Apply final : public CudaKernel {
  using Names = NamesOf<Rule>;
  static_assert(std::size(Names::kScalars) == Rule::kScalars);

 public:
  explicit Apply(const KernelConstruction& construction)
      : CudaKernel(construction), gradient_(InputOf(construction, Names::kGradient)) {
    for (int i = 0; i < Rule::kScalars; ++i) scalars_[i] = InputOf(construction, Names::kScalars[i]);
    const AttrValue* const attr = construction.node().FindAttr("use_nesterov");
    if (attr != nullptr) use_nesterov_ = attr->get<bool>();
  }

 private:
  static int InputOf(const KernelConstruction& construction, absl::string_view name) {
    const auto& inputs = construction.node().op().inputs();
    int index = 0;
    while (inputs[index].name != name) ++index;
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
    WEIR_RETURN_IF_ERROR(
        LaunchUpdates<Rule>(stream(), kernels(), Names::kRule, scalars, use_nesterov_, {&updated, 1}));
    for (int i = 0; i < Rule::kArrays; ++i) variables[i].variable->tensor = std::move(updated.arrays[i]);
    return absl::OkStatus();
  }

  const int gradient_;
  std::array<int, Rule::kScalars> scalars_ = {};
  bool use_nesterov_ = false;
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

}  // namespace weir::cuda
