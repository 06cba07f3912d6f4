// The parts of the array family: what RegisterArrayKernels registers.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterSourceKernels(DeviceKernels& kernels);    // constants, identities, fills
void RegisterShapeKernels(DeviceKernels& kernels);     // shapes as values
void RegisterLayoutKernels(DeviceKernels& kernels);    // elements in another order
void RegisterIndexingKernels(DeviceKernels& kernels);  // places chosen by values
void RegisterPaddingKernels(DeviceKernels& kernels);
void RegisterPassingOnKernels(DeviceKernels& kernels);
void RegisterRearrangingKernels(DeviceKernels& kernels);
void RegisterDiagonalKernels(DeviceKernels& kernels);
void RegisterCoordinateKernels(DeviceKernels& kernels);
void RegisterSelectKernels(DeviceKernels& kernels);
void RegisterCastKernels(DeviceKernels& kernels);
void RegisterUniqueKernels(DeviceKernels& kernels);  // distinct elements

}  // namespace weir
