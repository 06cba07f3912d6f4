#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type) {
  RegisterArrayKernels(registry, device_type);
  RegisterElementwiseKernels(registry, device_type);
  RegisterReductionKernels(registry, device_type);
  RegisterMatMulKernels(registry, device_type);
  RegisterNnKernels(registry, device_type);
  RegisterConvKernels(registry, device_type);
  RegisterRandomKernels(registry, device_type);
  RegisterStateKernels(registry, device_type);
  RegisterIoKernels(registry, device_type);
  RegisterSummaryKernels(registry, device_type);
  RegisterCheckKernels(registry, device_type);
}

}  // namespace weir
