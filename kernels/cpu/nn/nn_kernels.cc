#include "kernels/cpu/nn/nn_kernels.h"

#include "kernels/cpu/register_kernels.h"

namespace weir {

void RegisterNnKernels(DeviceKernels& kernels) {
  RegisterActivationKernels(kernels);
  RegisterBatchNormKernels(kernels);
  RegisterBiasKernels(kernels);
  RegisterSoftmaxKernels(kernels);
  RegisterLrnKernels(kernels);
  RegisterTopKKernels(kernels);
  RegisterLossKernels(kernels);
  RegisterConvolutionKernels(kernels);
  RegisterFusedConvolutionKernels(kernels);
  RegisterPoolingKernels(kernels);
}

}  // namespace weir
