#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type) {
  RegisterArrayKernels(registry, device_type);
  RegisterElementwiseKernels(registry, device_type);
  RegisterReductionKernels(registry, device_type);
}

}  // namespace weir
