#include "kernels/cpu/math/math_kernels.h"

#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterMathKernels(DeviceKernels& kernels) {
  RegisterElementwiseKernels(kernels);
  RegisterFusedElementwiseKernels(kernels);
  RegisterClipKernels(kernels);
  RegisterReductionKernels(kernels);
  RegisterMatMulKernels(kernels);
  RegisterFusedMatMulKernels(kernels);
  RegisterBatchMatMulKernels(kernels);
  RegisterEinsumKernels(kernels);
  RegisterScanKernels(kernels);
  RegisterVectorKernels(kernels);
  RegisterSegmentKernels(kernels);
}

}  // namespace weir
