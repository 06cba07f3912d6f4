// What kernels of a CudaDevice have in common, and the lists of them.
//
// A kernel checks its inputs as the CPU's does, with the same messages, and enqueues launches: when Compute
// returns, nothing has been computed yet. It never waits and never reads a tensor in the device's memory.
// Thread safety: see Kernel.
#pragma once

#include "absl/status/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel.h"

namespace weir::cuda {

class CudaKernel : public Kernel {
 public:
  // Precondition: the device is a CudaDevice.
  explicit CudaKernel(const KernelConstruction& construction)
      : device_(static_cast<CudaDevice&>(construction.device())) {}

  // An error that says that the device is lost is remembered by the device.
  absl::Status Compute(KernelContext& context) final { return device_.Noted(Enqueue(context)); }

 protected:
  virtual absl::Status Enqueue(KernelContext& context) = 0;

  CudaDevice& device() const { return device_; }
  CudaStream& stream() const { return device_.stream(); }
  const CudaKernelTable& kernels() const { return device_.kernels(); }

 private:
  CudaDevice& device_;
};

// One function for each *_ops.cc.
void RegisterArrayOps(DeviceKernels& kernels);
void RegisterBatchNormOps(DeviceKernels& kernels);
void RegisterConvolutionOps(DeviceKernels& kernels);
void RegisterElementOps(DeviceKernels& kernels);
void RegisterLossOps(DeviceKernels& kernels);
void RegisterMatrixOps(DeviceKernels& kernels);
void RegisterPoolOps(DeviceKernels& kernels);
void RegisterReductionOps(DeviceKernels& kernels);
void RegisterVariableOps(DeviceKernels& kernels);

}  // namespace weir::cuda
