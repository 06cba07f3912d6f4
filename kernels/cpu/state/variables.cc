// Variables: their handles, reads and assignments.
#include <complex>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel_registry.h"
#include "kernels/variable.h"

namespace weir {
namespace {

absl::Status DTypeDiffers(absl::string_view name, DType variable, DType asked) {
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", name, "' holds ", DTypeName(variable), ", asked for as ", DTypeName(asked)));
}

// Variables of a server outlive the programs that made them.
constexpr char kEarlierProgram[] =
    "; an earlier program may have left it there, and Session.reset of TensorFlow's clients drops it";

absl::Status WithHint(const absl::Status& error) {
  return absl::InvalidArgumentError(absl::StrCat(error.message(), kEarlierProgram));
}

// The handle is made once: it holds the variable, so neither this kernel nor those that use it look it up
// again.
class VarHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const DType dtype = construction.attr<DType>("dtype");
    const std::string& shared_name = construction.attr<std::string>("shared_name");
    ResourceHandle handle;
    handle.device = construction.device().name().ToString();
    handle.container = construction.attr<std::string>("container");
    handle.name = shared_name.empty() ? construction.node().name() : shared_name;
    handle.type_name = Variable::kTypeName;
    WEIR_ASSIGN_OR_RETURN(RefPtr<Variable> variable,
                          construction.device().resources().LookupOrCreate<Variable>(
                              handle.container, handle.name, [dtype] { return MakeRef<Variable>(dtype); }));
    if (variable->dtype != dtype) return WithHint(DTypeDiffers(handle.name, variable->dtype, dtype));
    handle.resource = std::move(variable);
    return std::make_unique<VarHandle>(std::move(handle));
  }

  explicit VarHandle(ResourceHandle handle) : handle_(Tensor::Scalar(std::move(handle))) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  const Tensor handle_;
};

class ReadVariable final : public Kernel {
 public:
  explicit ReadVariable(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const absl::StatusOr<NamedVariable> found = LookupVariable(context, 0);
    if (!found.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("Could not find variable: ", found.status().message()));
    }
    const NamedVariable& source = *found;
    const Variable& variable = *source.variable;
    absl::MutexLock lock(&variable.mutex);
    const Tensor& value = variable.tensor;
    if (!value.is_valid()) return UninitializedVariable(source.name);
    if (value.dtype() != context.output_type(0)) {
      return DTypeDiffers(source.name, value.dtype(), context.output_type(0));
    }
    context.set_output(0, value);
    return absl::OkStatus();
  }
};

class AssignVariable final : public Kernel {
 public:
  explicit AssignVariable(const KernelConstruction& construction)
      : validate_shape_(construction.attr<bool>("validate_shape")) {
    const Output& handle = construction.node().input(0);
    if (const auto& type = handle.node->resource_type(handle.index)) declared_shape_ = type->shape;
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& value = context.input(1);
    Variable& variable = *target.variable;
    if (value.dtype() != variable.dtype) return DTypeDiffers(target.name, variable.dtype, value.dtype());
    if (!declared_shape_.IsCompatibleWith(value.shape()))
      return WrongShape(target.name, declared_shape_, value);
    Tensor old;  // freed after the lock
    absl::MutexLock lock(&variable.mutex);
    Tensor& tensor = variable.tensor;
    if (validate_shape_ && tensor.is_valid() && tensor.shape() != value.shape()) {
      return WithHint(WrongShape(target.name, tensor.shape(), value));
    }
    // Shares the buffer with the step's slot until the executor clears that; then the variable is its only
    // owner.
    old = std::exchange(tensor, value);
    return absl::OkStatus();
  }

 private:
  static absl::Status WrongShape(absl::string_view name, const PartialShape& shape, const Tensor& value) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' has the shape ", shape.ToString(),
                                                   ", the value assigned to it is ",
                                                   TypeString(value.dtype(), value.shape())));
  }

  const bool validate_shape_;
  PartialShape declared_shape_;
};

// AssignAdd and AssignSub.
template <typename T, int sign>
class AccumulateIntoVariable final : public Kernel {
 public:
  explicit AccumulateIntoVariable(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const NamedVariable target, LookupVariable(context, 0));
    const Tensor& value = context.input(1);
    Variable& variable = *target.variable;
    absl::MutexLock lock(&variable.mutex);
    Tensor& tensor = variable.tensor;
    WEIR_RETURN_IF_ERROR(CheckUpdate(variable, target.name, "the value", value));
    WEIR_ASSIGN_OR_RETURN(Tensor next, TensorToWrite(variable, context.device()));
    const T* before = tensor.flat<T>().data();
    const T* change = value.flat<T>().data();
    T* after = next.flat<T>().data();
    context.threads().ParallelFor(next.num_elements(), 0.3, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) after[i] = Sum(before[i], change[i]);
    });
    tensor = std::move(next);
    return absl::OkStatus();
  }

 private:
  static T Sum(T value, T change) {
    if constexpr (std::is_integral_v<T>) {  // wraps around, as two's complement does; signed overflow is
                                            // undefined
      using Unsigned = std::make_unsigned_t<T>;
      const auto a = static_cast<Unsigned>(value), b = static_cast<Unsigned>(change);
      return static_cast<T>(static_cast<Unsigned>(sign > 0 ? a + b : a - b));
    } else {
      return sign > 0 ? T(value + change) : T(value - change);
    }
  }
};

absl::Status VariableIsInitialized(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  const absl::StatusOr<NamedVariable> named = LookupVariable(context, 0);
  bool is_initialized = false;
  if (named.ok()) {
    const Variable& variable = *named->variable;
    absl::ReaderMutexLock lock(&variable.mutex);
    is_initialized = variable.tensor.is_valid();
  } else if (!absl::IsNotFound(named.status())) {
    return named.status();
  }
  output->flat<bool>()[0] = is_initialized;
  return absl::OkStatus();
}

// Every read shares the buffer, and an update copies it: there is nothing to disable.
absl::Status DisableCopyOnRead(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const NamedVariable source, LookupVariable(context, 0));
  const Variable& variable = *source.variable;
  absl::ReaderMutexLock lock(&variable.mutex);
  return variable.tensor.is_valid() ? absl::OkStatus() : UninitializedVariable(source.name);
}

class DestroyResource final : public Kernel {
 public:
  explicit DestroyResource(const KernelConstruction& construction)
      : ignore_missing_(construction.attr<bool>("ignore_lookup_error")) {}

  absl::Status Compute(KernelContext& context) override {
    absl::Status status = Destroy(context);
    return ignore_missing_ && absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

 private:
  // Handles in this and other sessions' kernels keep pointing to a variable, so it stays where they and later
  // kernels find the same one, and only its value goes: destroyed and not yet initialised are one state.
  static absl::Status Destroy(KernelContext& context) {
    WEIR_ASSIGN_OR_RETURN(const ResourceHandle* const at, HandleInput(context, 0));
    const ResourceHandle& handle = *at;
    RefPtr<Resource> any = handle.resource;
    if (!any) {
      WEIR_ASSIGN_OR_RETURN(any, context.resources().LookupHandle(handle));
    }
    auto* const found = dynamic_cast<Variable*>(any.get());
    if (found == nullptr) return context.resources().Delete(handle);
    Variable& variable = *found;
    Tensor old;  // freed after the lock
    absl::MutexLock lock(&variable.mutex);
    if (!variable.tensor.is_valid()) {
      return absl::NotFoundError(absl::StrCat("variable '", handle.name, "' holds nothing to destroy"));
    }
    old = std::exchange(variable.tensor, Tensor());
    return absl::OkStatus();
  }

  const bool ignore_missing_;
};

template <typename T>
using Accumulate = AccumulateIntoVariable<T, 1>;
template <typename T>
using Decrease = AccumulateIntoVariable<T, -1>;

using Numbers = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t, std::complex<float>, std::complex<double>>;

}  // namespace

void RegisterVariablesKernels(DeviceKernels& kernels) {
  kernels.Add<VarHandle>("VarHandleOp");
  kernels.Add<ReadVariable>("ReadVariableOp");
  kernels.Add<AssignVariable>("AssignVariableOp");
  kernels.Add<&VariableIsInitialized>("VarIsInitializedOp");
  kernels.Add<&DisableCopyOnRead>("DisableCopyOnRead");
  kernels.Add<DestroyResource>("DestroyResourceOp");
  const Numbers numbers("dtype");
  kernels.Add<Accumulate>("AssignAddVariableOp", numbers);
  kernels.Add<Decrease>("AssignSubVariableOp", numbers);
}

}  // namespace weir
