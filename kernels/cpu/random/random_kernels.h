// The parts of the random family: what RegisterRandomKernels registers.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterStatelessRandomKernels(DeviceKernels& kernels);  // ops that get their seed as an input
void RegisterChoiceKernels(DeviceKernels& kernels);           // of an order, of classes
void RegisterGammaKernels(DeviceKernels& kernels);            // the gamma distribution

}  // namespace weir
