#include "kernels/cpu/state/variable_update.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/recorder.h"

namespace weir {

absl::StatusOr<NamedVariable> LookupVariable(KernelContext& context, int input) {
  WEIR_ASSIGN_OR_RETURN(RefPtr<Variable> variable, LookupResource<Variable>(context, input));
  return NamedVariable{std::move(variable), context.input(input).scalar<ResourceHandle>().name};
}

absl::Status UninitializedVariable(absl::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat("Attempting to use uninitialized value ", name,
                                                    ": run its initializer or restore a checkpoint first"));
}

absl::Status CheckRead(const Variable& variable, absl::string_view name, DType dtype) {
  if (!variable.tensor.is_valid()) return UninitializedVariable(name);
  if (variable.dtype == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' holds ", DTypeName(variable.dtype),
                                                 ", asked for as ", DTypeName(dtype)));
}

absl::Status CheckUpdate(const Variable& variable, absl::string_view name, absl::string_view what,
                         const Tensor& update) {
  const Tensor& tensor = variable.tensor;
  if (!tensor.is_valid()) return UninitializedVariable(name);
  if (tensor.dtype() != update.dtype() || tensor.shape() != update.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is ", TypeString(update.dtype(), update.shape()),
                                                   " but variable '", name, "' is ",
                                                   TypeString(tensor.dtype(), tensor.shape())));
  }
  return absl::OkStatus();
}

absl::Status VariableLocks::CheckDistinct(absl::Span<const NamedVariable> variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (variables[i].variable.get() != variables[j].variable.get()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variables[i].name, "' is both input ", j, " and input ", i));
    }
  }
  return absl::OkStatus();
}

// The analysis cannot follow a set of locks that is only known at run time.
VariableLocks::VariableLocks(absl::Span<const NamedVariable> variables) ABSL_NO_THREAD_SAFETY_ANALYSIS
    : count_(static_cast<int>(variables.size())) {
  for (int i = 0; i < count_; ++i) variables_[i] = variables[i].variable.get();
  std::sort(variables_.begin(), variables_.begin() + count_);
  for (int i = 0; i < count_; ++i) variables_[i]->mutex.Lock();
}

VariableLocks::~VariableLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (int i = count_ - 1; i >= 0; --i) variables_[i]->mutex.Unlock();
}

absl::StatusOr<Tensor> TensorToWrite(const Variable& variable, Device& device) {
  const Tensor& now = variable.tensor;
  if (now.has_exclusive_buffer()) return now;
  // Recorded work finds the variable where it is, or not at all.
  if (const auto* const recordable = dynamic_cast<const Recordable*>(&device);
      recordable != nullptr && recordable->is_recording()) {
    return absl::AbortedError("somebody else reads a variable that is updated");
  }
  return Tensor::Allocate(now.dtype(), now.shape(),
                          IsPlainBytes(now.dtype()) ? device.allocator() : device.host_allocator());
}

absl::StatusOr<Tensor> TensorToWriteInPart(const Variable& variable, Device& device) {
  WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, device));
  if (next.data() != variable.tensor.data()) {
    CopyElements(variable.tensor, 0, next, 0, variable.tensor.num_elements());
  }
  return next;
}

}  // namespace weir
