// ResourceApply* and ResourceSparseApply*: one step of an optimizer on a variable and its slots, or on rows
// of them that indices name.
//
// The variables' locks are held while work is enqueued (variable_ops.cc). A row that is named twice makes two
// steps, in the order of the indices, which are sorted for that. Where scalars or indices are wrong, nothing
// is applied.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/training/rules.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/indexed_launches.h"
#include "kernels/cuda/row_sort.h"
#include "kernels/cuda/update_launches.h"

namespace weir::cuda {
namespace {

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

// Any rule but Ftrl takes any scalars.
template <typename Rule>
absl::Status WhyRefused(const Rule*, absl::Span<const Tensor>, bool) {
  return absl::OkStatus();
}

// What both forms of an op have in common.
template <typename Rule>
class Update : public CudaKernel {
 protected:
  using Names = NamesOf<Rule>;
  using Variables = std::array<NamedVariable, Rule::kArrays>;
  static_assert(std::size(Names::kScalars) == Rule::kScalars);

  explicit Update(const KernelConstruction& construction)
      : CudaKernel(construction),
        gradient_(std::max(InputOf(construction, "grad"), InputOf(construction, "delta"))) {
    for (int i = 0; i < Rule::kScalars; ++i) scalars_[i] = InputOf(construction, Names::kScalars[i]);
    if constexpr (Names::kFlag != nullptr) flag_ = construction.attr<bool>(Names::kFlag);
  }

  // -1 when there is none of that name.
  static int InputOf(const KernelConstruction& construction, absl::string_view name) {
    const auto& inputs = construction.node().op().inputs();
    int index = static_cast<int>(inputs.size()) - 1;
    while (index >= 0 && inputs[index].name != name) --index;
    return index;
  }

  const Tensor& GradientOf(const KernelContext& context) const { return context.input(gradient_); }
  bool flag() const { return flag_; }

  absl::StatusOr<std::vector<Tensor>> Scalars(const KernelContext& context) const {
    std::vector<Tensor> scalars;
    for (int i = 0; i < Rule::kScalars; ++i) {
      scalars.push_back(context.input(scalars_[i]));
      if (scalars.back().num_elements() == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(Names::kScalars[i], " must be a scalar, is ",
                       TypeString(scalars.back().dtype(), scalars.back().shape())));
    }
    return scalars;
  }

  static absl::StatusOr<Variables> Lookup(KernelContext& context) {
    Variables variables;
    for (int i = 0; i < Rule::kArrays; ++i) {
      WEIR_ASSIGN_OR_RETURN(variables[i], LookupVariable(context, i));
    }
    WEIR_RETURN_IF_ERROR(VariableLocks::CheckDistinct(variables));
    return variables;
  }

  // Calls launch(updated) with where the variables' new values go, which they have then. The locks are held,
  // which the analysis cannot see.
  template <typename Launch>
  absl::Status Write(const Variables& variables, const Tensor& gradient,
                     const Launch& launch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    UpdatedVariable updated = {.arrays = {}, .gradient = gradient};
    for (const NamedVariable& variable : variables) {
      WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToUpdate(*variable.variable, device()));
      updated.arrays.push_back(std::move(next));
    }
    WEIR_RETURN_IF_ERROR(launch(updated));
    for (int i = 0; i < Rule::kArrays; ++i) variables[i].variable->tensor = std::move(updated.arrays[i]);
    return absl::OkStatus();
  }

 private:
  const int gradient_;
  std::array<int, Rule::kScalars> scalars_ = {};
  bool flag_ = false;
};

template <typename Rule>
class Apply final : public Update<Rule> {
 public:
  explicit Apply(const KernelConstruction& construction) : Update<Rule>(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> scalars, this->Scalars(context));
    WEIR_ASSIGN_OR_RETURN(const auto variables, this->Lookup(context));
    const VariableLocks locks(variables);
    const Tensor& gradient = this->GradientOf(context);
    for (const NamedVariable& variable : variables) {
      WEIR_RETURN_IF_ERROR(CheckUpdate(*variable.variable, variable.name, "the gradient", gradient));
    }
    return this->Write(variables, gradient,
                       [&](const UpdatedVariable& updated) { return Launch(context, scalars, updated); });
  }

  absl::Status Launch(KernelContext& context, const std::vector<Tensor>& scalars,
                      const UpdatedVariable& updated) const {
    const auto launch = [&](const DataErrorPlace& place) {
      return LaunchUpdates<Rule>(this->stream(), this->kernels(), NamesOf<Rule>::kRule, scalars, this->flag(),
                                 {&updated, 1}, place);
    };
    if constexpr (kChecksScalars<Rule>) {
      const auto explain = [flag = this->flag()](absl::Span<const Tensor> on_host, const DataError&) {
        return WhyRefused(static_cast<const Rule*>(nullptr), on_host, flag);
      };
      return this->Check(context, scalars, explain, launch);
    } else {
      return launch({.here = this->NotesOf(context), .mirror = nullptr, .check = 0});
    }
  }
};

template <typename Rule>
class ApplyRows final : public Update<Rule> {
 public:
  explicit ApplyRows(const KernelConstruction& construction)
      : Update<Rule>(construction), indices_(this->InputOf(construction, "indices")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> scalars, this->Scalars(context));
    WEIR_ASSIGN_OR_RETURN(const auto variables, this->Lookup(context));
    const VariableLocks locks(variables);
    const Tensor& gradient = this->GradientOf(context);
    const Tensor& indices = context.input(indices_);
    const Tensor& var = variables[0].variable->tensor;
    if (!var.is_valid()) return UninitializedVariable(variables[0].name);
    WEIR_RETURN_IF_ERROR(CheckRowGradient(var, variables[0].name, gradient, indices.shape()));
    for (size_t i = 1; i < variables.size(); ++i) {
      WEIR_RETURN_IF_ERROR(CheckUpdate(*variables[i].variable, variables[i].name,
                                       absl::StrCat("variable '", variables[0].name, "'"), var));
    }
    const int64_t limit = var.shape().dim(0);
    return this->Write(variables, gradient, [&](const UpdatedVariable& updated) {
      return CheckAndLaunch(context, scalars, indices, limit, updated);
    });
  }

  absl::Status CheckAndLaunch(KernelContext& context, const std::vector<Tensor>& scalars,
                              const Tensor& indices, int64_t limit, const UpdatedVariable& updated) const {
    const auto explain = [flag = this->flag(), limit](absl::Span<const Tensor> on_host, const DataError&) {
      const absl::Status status =
          WhyRefused(static_cast<const Rule*>(nullptr), on_host.subspan(0, on_host.size() - 1), flag);
      return status.ok() ? CheckIndices("indices", on_host.back(), limit) : status;
    };
    std::vector<Tensor> looked_at;
    if constexpr (kChecksScalars<Rule>) looked_at = scalars;
    looked_at.push_back(indices);
    return this->Check(context, looked_at, explain, [&](const DataErrorPlace& place) {
      return Launch(context, scalars, indices, limit, updated, place);
    });
  }

  absl::Status Launch(KernelContext& context, const std::vector<Tensor>& scalars, const Tensor& indices,
                      int64_t limit, const UpdatedVariable& updated, const DataErrorPlace& place) const {
    if (indices.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const RowOrder order,
                          SortRows(context, this->device(), indices, limit, NegativeIndices::kBad, place));
    return LaunchUpdateRows<Rule>(this->stream(), this->kernels(), NamesOf<Rule>::kRule, scalars,
                                  this->flag(), order, updated, place);
  }

  const int indices_;
};

}  // namespace

void RegisterOptimizerOps(DeviceKernels& kernels) {
  VisitRules([&]<typename Rule, typename T>(const char* rule) {
    kernels.Add<Apply<Rule>>(absl::StrCat("ResourceApply", rule), {{"T", {DTypeOf<T>}}});
  });
  VisitRowRules([&]<typename Rule, typename T>(const char* rule) {
    kernels.Add<ApplyRows<Rule>>(absl::StrCat("ResourceSparseApply", rule),
                                 {{"T", {DTypeOf<T>}}, {"Tindices", {DType::kInt32, DType::kInt64}}});
  });
}

}  // namespace weir::cuda
