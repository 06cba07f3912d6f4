// ResourceApply* and ResourceSparseApply*: one step of an optimizer on a variable and its slots, in one pass.
//
// A dense op updates every element. A sparse one updates the rows that its indices name: a row that is named
// twice is updated twice, in order. Nothing is written before all inputs have been checked.
#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/index_checks.h"
#include "kernels/cpu/state/row_indices.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cpu/training/rules.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Nanoseconds per element and variable on one core; memory traffic dominates.
constexpr double kCost = 0.4;
// What a row of a sparse update costs besides: no cache has it, most often.
constexpr double kRowCost = 15;
constexpr int64_t kAhead = 8;  // rows on their way from memory while one is updated

// 16-bit types are computed in single precision, a block at a time, so that the formulas stand once.
constexpr int kBlock = 256;
template <typename T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

absl::StatusOr<Tensor> AsInt64(KernelContext& context, const Tensor& indices) {
  if (indices.dtype() == DType::kInt64) return indices;
  WEIR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(DType::kInt64, indices.shape()));
  std::copy(indices.flat<int32_t>().begin(), indices.flat<int32_t>().end(), wide.flat<int64_t>().begin());
  return wide;
}

// Position of the input of that name; -1 when there is none.
int InputOf(const KernelConstruction& construction, absl::string_view name) {
  const auto& inputs = construction.node().op().inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
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
  absl::Status BeginDense(KernelContext& context, const Tensor& gradient) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < count; ++i) {
      WEIR_RETURN_IF_ERROR(
          CheckUpdate(*variables_[i].variable, variables_[i].name, "the gradient", gradient));
      WEIR_ASSIGN_OR_RETURN(next_[i], TensorToWrite(*variables_[i].variable, context.device()));
    }
    return absl::OkStatus();
  }
  absl::Status BeginSparse(KernelContext& context, const Tensor& gradient,
                           const Tensor& indices) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    WEIR_RETURN_IF_ERROR(CheckRows(gradient, indices));
    const Tensor& var = variables_[0].variable->tensor;
    for (int i = 1; i < count; ++i) {
      WEIR_RETURN_IF_ERROR(CheckUpdate(*variables_[i].variable, variables_[i].name,
                                       absl::StrCat("variable '", variables_[0].name, "'"), var));
    }
    for (int i = 0; i < count; ++i) {
      WEIR_ASSIGN_OR_RETURN(next_[i], TensorToWriteInPart(*variables_[i].variable, context.device()));
    }
    return absl::OkStatus();
  }
  // From an element of the variables on.
  std::array<UpdatedArray<T>, count> dense(int64_t offset) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::array<UpdatedArray<T>, count> arrays;
    for (int i = 0; i < count; ++i) {
      arrays[i] = {static_cast<const T*>(variables_[i].variable->tensor.data()) + offset,
                   static_cast<T*>(next_[i].data()) + offset};
    }
    return arrays;
  }
  // The same of a sparse update, which writes what it reads: its rows may come again.
  std::array<UpdatedArray<T>, count> row(int64_t offset) {
    std::array<UpdatedArray<T>, count> arrays;
    for (int i = 0; i < count; ++i) {
      T* const values = static_cast<T*>(next_[i].data()) + offset;
      arrays[i] = {values, values};
    }
    return arrays;
  }
  void Finish() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < count; ++i) variables_[i].variable->tensor = std::move(next_[i]);
  }

 private:
  absl::Status CheckRows(const Tensor& gradient, const Tensor& indices) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const Tensor& var = variables_[0].variable->tensor;
    if (!var.is_valid()) return UninitializedVariable(variables_[0].name);
    WEIR_RETURN_IF_ERROR(CheckRowGradient(var, variables_[0].name, gradient, indices.shape()));
    return CheckIndices("indices", indices, var.shape().dim(0));
  }

  const std::array<NamedVariable, count>& variables_;
  std::array<Tensor, count> next_;
  const VariableLocks locks_;
};

template <template <typename> class RuleOf, typename T>
class ApplyRule final : public Kernel {
  using Wide = Computed<T>;
  using Rule = RuleOf<Wide>;
  static constexpr int kVariables = Rule::kVariables;
  static constexpr int kScalars = std::size(Rule::kScalars);
  using Arrays = std::array<UpdatedArray<T>, kVariables>;
  using Scalars = std::array<Wide, kScalars>;

 public:
  explicit ApplyRule(const KernelConstruction& construction)
      : rule_(construction),
        gradient_(std::max(InputOf(construction, "grad"), InputOf(construction, "delta"))),
        indices_(InputOf(construction, "indices")) {
    for (int i = 0; i < kScalars; ++i) {
      scalars_[i] = Rule::kScalars[i] == nullptr ? -1 : InputOf(construction, Rule::kScalars[i]);
    }
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Scalars scalars, ReadScalars(context));
    WEIR_RETURN_IF_ERROR(rule_.Check(scalars.data()));
    using Locked = LockedUpdate<T, kVariables>;
    WEIR_ASSIGN_OR_RETURN(const auto variables, Locked::Lookup(context));
    Locked locked(variables);
    const Tensor& gradient = context.input(gradient_);
    if (indices_ >= 0) {
      const Tensor& indices = context.input(indices_);
      WEIR_RETURN_IF_ERROR(locked.BeginSparse(context, gradient, indices));
      WEIR_ASSIGN_OR_RETURN(const Tensor rows, AsInt64(context, indices));
      UpdateRows(context.threads(), rows.flat<int64_t>(), gradient, scalars, locked);
    } else {
      WEIR_RETURN_IF_ERROR(locked.BeginDense(context, gradient));
      const T* const grad = gradient.flat<T>().data();
      context.threads().ParallelFor(gradient.num_elements(), kCost * kVariables,
                                    [&](int64_t begin, int64_t end) {
                                      Update(end - begin, locked.dense(begin), grad + begin, scalars);
                                    });
    }
    locked.Finish();
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Scalars> ReadScalars(KernelContext& context) const {
    Scalars scalars = {};
    for (int i = 0; i < kScalars; ++i) {
      if (scalars_[i] < 0) continue;
      const Tensor& tensor = context.input(scalars_[i]);
      if (tensor.num_elements() != 1) {
        return absl::InvalidArgumentError(absl::StrCat(Rule::kScalars[i], " must be a scalar, is ",
                                                       TypeString(tensor.dtype(), tensor.shape())));
      }
      // Step numbers are integers.
      scalars[i] = tensor.dtype() == DType::kInt64 ? static_cast<Wide>(tensor.scalar<int64_t>())
                                                   : static_cast<Wide>(tensor.scalar<T>());
    }
    return scalars;
  }

  // Each part of the loop updates the rows that fall to it, in the order of the indices: a row that is named
  // twice is in one part.
  void UpdateRows(ThreadPool& threads, absl::Span<const int64_t> rows, const Tensor& gradient,
                  const Scalars& scalars, LockedUpdate<T, kVariables>& locked) const {
    if (gradient.num_elements() == 0) return;
    const auto count = static_cast<int64_t>(rows.size());
    const int64_t inner = gradient.num_elements() / count;
    const T* const grad = gradient.flat<T>().data();
    const double cost =
        static_cast<double>(count) * kVariables * (kRowCost + kCost * static_cast<double>(inner));
    const int64_t num_parts = threads.num_threads();
    threads.ParallelFor(num_parts, cost / static_cast<double>(num_parts), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t part = rows[i] % num_parts;
        if (part < begin || part >= end) continue;
        const Arrays later = locked.row(rows[std::min(i + kAhead, count - 1)] * inner);
        for (const auto& array : later) __builtin_prefetch(array.after, 1);
        Update(inner, locked.row(rows[i] * inner), grad + i * inner, scalars);
      }
    });
  }

  void Update(int64_t count, const Arrays& arrays, const T* grad, const Scalars& scalars) const {
    if constexpr (std::is_same_v<T, Wide>) {
      rule_.Update(count, arrays.data(), grad, scalars.data());
    } else {
      for (int64_t i = 0; i < count; i += kBlock) {
        UpdateBlock(i, static_cast<int>(std::min<int64_t>(kBlock, count - i)), arrays, grad, scalars);
      }
    }
  }

  void UpdateBlock(int64_t begin, int count, const Arrays& arrays, const T* grad,
                   const Scalars& scalars) const {
    Wide values[kVariables][kBlock], gradient[kBlock];
    std::array<UpdatedArray<Wide>, kVariables> wide;
    for (int k = 0; k < kVariables; ++k) {
      for (int i = 0; i < count; ++i) values[k][i] = static_cast<Wide>(arrays[k].before[begin + i]);
      wide[k] = {values[k], values[k]};
    }
    for (int i = 0; i < count; ++i) gradient[i] = static_cast<Wide>(grad[begin + i]);
    rule_.Update(count, wide.data(), gradient, scalars.data());
    for (int k = 0; k < kVariables; ++k) {
      for (int i = 0; i < count; ++i) arrays[k].after[begin + i] = T(values[k][i]);
    }
  }

  const Rule rule_;
  const int gradient_;
  const int indices_;  // -1 in a dense op
  std::array<int, kScalars> scalars_;
};

// The dense op of a rule and, where it has one, its sparse op.
template <template <typename> class Rule>
void AddRule(DeviceKernels& kernels, const std::string& name, bool has_sparse = true) {
  const auto add = [&](const std::string& op) {
    const auto add_type = [&](auto zero) {
      using T = decltype(zero);
      kernels.Add<ApplyRule<Rule, T>>(op, {{"T", {DTypeOf<T>}}});
    };
    add_type(float());
    add_type(double());
    add_type(Half());
    add_type(Bfloat16());
  };
  add("ResourceApply" + name);
  if (has_sparse) add("ResourceSparseApply" + name);
}

}  // namespace

void RegisterUpdateRulesKernels(DeviceKernels& kernels) {
  constexpr bool kDenseOnly = false;
  AddRule<rules::GradientDescent>(kernels, "GradientDescent", kDenseOnly);
  AddRule<rules::Momentum>(kernels, "Momentum");
  AddRule<rules::KerasMomentum>(kernels, "KerasMomentum");
  AddRule<rules::Adam>(kernels, "Adam", kDenseOnly);
  AddRule<rules::AdamWithAmsgrad>(kernels, "AdamWithAmsgrad", kDenseOnly);
  AddRule<rules::AdaMax>(kernels, "AdaMax", kDenseOnly);
  AddRule<rules::Adagrad>(kernels, "Adagrad");
  AddRule<rules::AdagradV2>(kernels, "AdagradV2");
  AddRule<rules::AdagradDA>(kernels, "AdagradDA");
  AddRule<rules::RMSProp>(kernels, "RMSProp");
  AddRule<rules::CenteredRMSProp>(kernels, "CenteredRMSProp");
  AddRule<rules::Adadelta>(kernels, "Adadelta");
  AddRule<rules::Ftrl>(kernels, "Ftrl");
  AddRule<rules::FtrlV2>(kernels, "FtrlV2");
  AddRule<rules::ProximalGradientDescent>(kernels, "ProximalGradientDescent");
  AddRule<rules::ProximalAdagrad>(kernels, "ProximalAdagrad");
  AddRule<rules::AddSign>(kernels, "AddSign", kDenseOnly);
  AddRule<rules::PowerSign>(kernels, "PowerSign", kDenseOnly);
}

}  // namespace weir
