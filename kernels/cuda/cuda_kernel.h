// What kernels of a CudaDevice have in common, and the lists of them.
//
// A kernel checks its inputs as the CPU's does, with the same messages, and enqueues launches: when Compute
// returns, nothing has been computed yet. It never waits and never reads a tensor in the device's memory.
// Thread safety: see Kernel.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/data_error.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel.h"
#include "kernels/variable.h"

namespace weir::cuda {

class CudaKernel : public Kernel {
 public:
  // Precondition: the device is a CudaDevice.
  explicit CudaKernel(const KernelConstruction& construction)
      : device_(static_cast<CudaDevice&>(construction.device())),
        node_op_(construction.node().op_name()),
        node_name_(construction.node().name()) {}

  // An error that says that the device is lost is remembered by the device.
  absl::Status Compute(KernelContext& context) final { return device_.Noted(Enqueue(context)); }

 protected:
  virtual absl::Status Enqueue(KernelContext& context) = 0;

  CudaDevice& device() const { return device_; }
  CudaStream& stream() const { return device_.stream(); }
  const CudaKernelTable& kernels() const { return device_.kernels(); }

  // Gives the error of data that a kernel has found wrong. `data` are those of Check, on the host.
  using Explain = std::function<absl::Status(absl::Span<const Tensor> data, const DataError& found)>;
  // Calls launch(place), which enqueues a kernel that takes note in `place` of what is wrong with `data`.
  // They are kept until the step is over, so that nothing is written there.
  absl::Status Check(KernelContext& context, std::vector<Tensor> data, Explain explain,
                     absl::FunctionRef<absl::Status(const DataErrorPlace&)> launch) const;
  // For kernels that change variables; null where nothing was looked at.
  volatile DataError* NotesOf(const KernelContext& context) const {
    return device_.checks().NotesOf(context.pending());
  }

 private:
  // Until the checks are over that have been enqueued.
  absl::Status Await() const;

  CudaDevice& device_;
  const std::string node_op_, node_name_;
};

// Where an update in place goes: the variable's tensor, or a copy of it that is made on the device.
absl::StatusOr<Tensor> TensorToUpdate(const Variable& variable, CudaDevice& device)
    ABSL_SHARED_LOCKS_REQUIRED(variable.mutex);

// One function for each *_ops.cc.
void RegisterArrayOps(DeviceKernels& kernels);
void RegisterBatchNormOps(DeviceKernels& kernels);
void RegisterChoiceOps(DeviceKernels& kernels);
void RegisterConvolutionOps(DeviceKernels& kernels);
void RegisterDebuggingOps(DeviceKernels& kernels);
void RegisterElementOps(DeviceKernels& kernels);
void RegisterGatherOps(DeviceKernels& kernels);
void RegisterLossOps(DeviceKernels& kernels);
void RegisterMatrixOps(DeviceKernels& kernels);
void RegisterOptimizerOps(DeviceKernels& kernels);
void RegisterPoolOps(DeviceKernels& kernels);
void RegisterReductionOps(DeviceKernels& kernels);
void RegisterScatterOps(DeviceKernels& kernels);
void RegisterSegmentOps(DeviceKernels& kernels);
void RegisterVariableOps(DeviceKernels& kernels);
// AssignVariableOp, of the CPU's kernel.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAssign(const KernelConstruction& construction,
                                                   std::unique_ptr<Kernel> of_host);

}  // namespace weir::cuda
