// Stacks: what v1 loops keep of their iterations for their gradients. A stack lives as long as handles of it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/plain_value.h"
#include "kernels/cpu/data_flow/tensor_array.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// What refers to its own holder would never be freed. Arrays hold no handles; the gradients of arrays that a
// loop makes in its iterations are found by their handles.
absl::Status CheckMayHold(const Tensor& element) {
  bool may_hold = element.dtype() == DType::kResource || RefersToNobody(element);
  if (element.dtype() == DType::kResource) {
    for (const ResourceHandle& handle : element.flat<ResourceHandle>()) {
      may_hold = may_hold && dynamic_cast<const TensorArray*>(handle.resource.get()) != nullptr;
    }
  }
  if (may_hold) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "stacks hold numbers, strings, values made of these and tensor arrays, not ", element.ToString(4)));
}

class Stack final : public Resource {
 public:
  static constexpr char kTypeName[] = "Stack";
  // More elements than any stack may have.
  static constexpr int64_t kMaxLength = int64_t{1} << 22;

  // `max_length` below 0: no limit of its own.
  Stack(std::string name, DType dtype, int64_t max_length)
      : name_(std::move(name)), dtype_(dtype), max_length_(max_length) {}

  std::string ToString() const override { return absl::StrCat("Stack '", name_, "' of ", DTypeName(dtype_)); }
  DType dtype() const { return dtype_; }

  absl::Status Push(Tensor element) {
    WEIR_RETURN_IF_ERROR(CheckMayHold(element));
    const absl::MutexLock lock(&mutex_);
    if (is_closed_) return Closed();
    if (element.dtype() != dtype_) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToString(), " is given an element of ", DTypeName(element.dtype())));
    }
    const int64_t limit = max_length_ < 0 ? kMaxLength : std::min(max_length_, kMaxLength);
    if (static_cast<int64_t>(elements_.size()) >= limit) {
      return absl::InvalidArgumentError(
          absl::StrCat("Stack[", name_, "] overflowed its max_size (", limit, ")"));
    }
    elements_.push_back(std::move(element));
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Pop() {
    const absl::MutexLock lock(&mutex_);
    if (is_closed_) return Closed();
    if (elements_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("Stack[", name_, "] is empty when calling Pop()."));
    }
    Tensor last = std::move(elements_.back());
    elements_.pop_back();
    return last;
  }

  void Close() {
    const absl::MutexLock lock(&mutex_);
    is_closed_ = true;
    elements_.clear();
  }

 private:
  absl::Status Closed() const {
    return absl::InvalidArgumentError(absl::StrCat("Stack[", name_, "] has already been closed."));
  }

  const std::string name_;
  const DType dtype_;
  const int64_t max_length_;
  absl::Mutex mutex_;
  std::vector<Tensor> elements_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Each run makes a stack.
class MakeStack final : public Kernel {
 public:
  explicit MakeStack(const KernelConstruction& construction)
      : device_(construction.device().name().ToString()), dtype_(construction.attr<DType>("elem_type")) {
    const std::string& name = construction.attr<std::string>("stack_name");
    name_ = name.empty() ? construction.node().name() : name;
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t max_length, ReadInteger(context.input(0), "max_size"));
    context.set_output(
        0, HandleOfStepResource(device_, name_, Stack::kTypeName, MakeRef<Stack>(name_, dtype_, max_length)));
    return absl::OkStatus();
  }

 private:
  const std::string device_;
  const DType dtype_;
  std::string name_;
};

absl::Status Push(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, LookupResource<Stack>(context, 0));
  WEIR_RETURN_IF_ERROR(stack->Push(context.input(1)));
  context.set_output(0, context.input(1));
  return absl::OkStatus();
}

absl::Status Pop(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, LookupResource<Stack>(context, 0));
  if (stack->dtype() != context.output_type(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(stack->ToString(), " is asked for an element of ", DTypeName(context.output_type(0))));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor element, stack->Pop());
  context.set_output(0, std::move(element));
  return absl::OkStatus();
}

absl::Status Close(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, LookupResource<Stack>(context, 0));
  stack->Close();
  return absl::OkStatus();
}

}  // namespace

void RegisterStacksKernels(DeviceKernels& kernels) {
  kernels.Add<MakeStack>("StackV2");
  kernels.Add<&Push>("StackPushV2");
  kernels.Add<&Pop>("StackPopV2");
  kernels.Add<&Close>("StackCloseV2");
}

}  // namespace weir
