// The parts of the nn family: what RegisterNnKernels registers. The other activations are in math/'s table.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterActivationKernels(DeviceKernels& kernels);  // those with a parameter
void RegisterBatchNormKernels(DeviceKernels& kernels);
void RegisterBiasKernels(DeviceKernels& kernels);
void RegisterSoftmaxKernels(DeviceKernels& kernels);
void RegisterLrnKernels(DeviceKernels& kernels);
void RegisterTopKKernels(DeviceKernels& kernels);
void RegisterLossKernels(DeviceKernels& kernels);
void RegisterConvolutionKernels(DeviceKernels& kernels);
void RegisterFusedConvolutionKernels(DeviceKernels& kernels);
void RegisterPoolingKernels(DeviceKernels& kernels);

}  // namespace weir
