// The parts of the state family: what RegisterStateKernels registers.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterGatherKernels(DeviceKernels& kernels);
void RegisterRowScatterKernels(DeviceKernels& kernels);
void RegisterCoordinateScatterKernels(DeviceKernels& kernels);

}  // namespace weir
