// Updates of variables: Assign, AssignAdd, AssignSub.
//
// As on the CPU, an update runs in place when the variable alone holds its buffer; else a copy takes its
// place, made on the device. The variables' locks are held while work is enqueued, so its order is that of
// the updates. In a step whose data are looked at on the device, the variable keeps its value when they are
// found wrong, which the host does not know yet.
#include <memory>
#include <utility>
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/state/variable_update.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/data_check_launches.h"
#include "kernels/cuda/element_launches.h"

namespace weir::cuda {
namespace {

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

}  // namespace

void RegisterVariableOps(DeviceKernels& kernels) {
  const std::vector<DType> numbers = {DType::kFloat32,  DType::kFloat64, DType::kHalf,
                                      DType::kBfloat16, DType::kInt32,   DType::kInt64};
  kernels.Add<Accumulate>("AssignAddVariableOp", {{"dtype", numbers}});
  kernels.Add<Accumulate>("AssignSubVariableOp", {{"dtype", numbers}});
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAssign(const KernelConstruction& construction,
                                                   std::unique_ptr<Kernel> of_host) {
  return std::make_unique<Assign>(construction, std::move(of_host));
}

}  // namespace weir::cuda
