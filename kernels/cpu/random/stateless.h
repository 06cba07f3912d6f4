// The random ops that get their seed as an input: equal seeds give equal numbers in every step.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterStatelessRandomKernels(DeviceKernels& kernels);

}  // namespace weir
