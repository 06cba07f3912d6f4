#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type) {
  DeviceKernels kernels(registry, device_type);
  RegisterArrayKernels(kernels);
  RegisterElementwiseKernels(kernels);
  RegisterReductionKernels(kernels);
  RegisterMatMulKernels(kernels);
  RegisterNnKernels(kernels);
  RegisterConvKernels(kernels);
  RegisterPoolKernels(kernels);
  RegisterRandomKernels(kernels);
  RegisterStateKernels(kernels);
  RegisterTrainingKernels(kernels);
  RegisterIoKernels(kernels);
  RegisterSummaryKernels(kernels);
  RegisterCheckKernels(kernels);
}

}  // namespace weir
