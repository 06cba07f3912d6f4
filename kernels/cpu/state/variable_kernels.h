// The parts of the state family: what RegisterStateKernels registers.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterSliceKernels(DeviceKernels& kernels);  // slices of variables by index

}  // namespace weir
