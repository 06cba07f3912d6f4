#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type) {
  DeviceKernels kernels(registry, device_type);
  RegisterArrayKernels(kernels);
  RegisterDataKernels(kernels);
  RegisterDataFlowKernels(kernels);
  RegisterLookupKernels(kernels);
  RegisterMathKernels(kernels);
  RegisterNnKernels(kernels);
  RegisterRandomKernels(kernels);
  RegisterSparseKernels(kernels);
  RegisterStateKernels(kernels);
  RegisterTrainingKernels(kernels);
  RegisterIoKernels(kernels);
  RegisterStringsKernels(kernels);
  RegisterSummaryKernels(kernels);
  RegisterDebuggingKernels(kernels);
  RegisterImageKernels(kernels);
}

}  // namespace weir
