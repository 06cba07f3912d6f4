#include "kernels/cpu/array/array_kernels.h"

#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterArrayKernels(DeviceKernels& kernels) {
  RegisterSourceKernels(kernels);
  RegisterShapeKernels(kernels);
  RegisterLayoutKernels(kernels);
  RegisterIndexingKernels(kernels);
  RegisterPaddingKernels(kernels);
  RegisterPassingOnKernels(kernels);
  RegisterRearrangingKernels(kernels);
  RegisterDiagonalKernels(kernels);
  RegisterCoordinateKernels(kernels);
  RegisterSelectKernels(kernels);
  RegisterCastKernels(kernels);
  RegisterUniqueKernels(kernels);
}

}  // namespace weir
