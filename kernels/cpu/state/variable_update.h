// Writing variables while others read and write them.
//
// A reader's tensor never changes: an update runs in place when the variable alone holds its buffer, else it
// writes a new buffer that then replaces the old one, in the same single pass. Both values of an op's
// use_locking take the variables' locks: without them two asynchronous workers would write one buffer at
// once.
#pragma once

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/kernel_context.h"
#include "kernels/variable.h"

namespace weir {

// A variable with the name that errors give it: the handle's.
struct NamedVariable {
  RefPtr<Variable> variable;
  absl::string_view name;  // borrowed from the handle in the step's frame
};

// Errors: LookupResource's.
absl::StatusOr<NamedVariable> LookupVariable(KernelContext& context, int input);

// FailedPrecondition "Attempting to use uninitialized value dense/kernel: ...", the beginning of TensorFlow's
// text.
absl::Status UninitializedVariable(absl::string_view name);

// FailedPrecondition unless the variable has a value; InvalidArgument unless that has this dtype.
absl::Status CheckRead(const Variable& variable, absl::string_view name, DType dtype)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex);

// InvalidArgument unless the variable is initialised and has this dtype and shape; `what` names the other
// tensor.
absl::Status CheckUpdate(const Variable& variable, absl::string_view name, absl::string_view what,
                         const Tensor& update) ABSL_SHARED_LOCKS_REQUIRED(variable.mutex);

// Holds the locks of up to four variables, taken in one order everywhere so that no two updates can block
// each other.
class VariableLocks {
 public:
  static constexpr int kMaxVariables = 4;
  // InvalidArgument when a variable is given twice: its update would read what it overwrites.
  static absl::Status CheckDistinct(absl::Span<const NamedVariable> variables);
  // Precondition: CheckDistinct.
  explicit VariableLocks(absl::Span<const NamedVariable> variables);
  ~VariableLocks();
  VariableLocks(const VariableLocks&) = delete;
  VariableLocks& operator=(const VariableLocks&) = delete;

 private:
  std::array<Variable*, kMaxVariables> variables_ = {};
  const int count_;
};

// Where an update of the variable goes: its own tensor, or a new one that the caller puts in its place when
// done.
absl::StatusOr<Tensor> TensorToWrite(const Variable& variable, Device& device)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex);
// The same for an update of some elements: a new tensor holds the old values.
absl::StatusOr<Tensor> TensorToWriteInPart(const Variable& variable, Device& device)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex);

}  // namespace weir
