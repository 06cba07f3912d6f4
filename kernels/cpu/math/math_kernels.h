// The parts of the math family: what RegisterMathKernels registers.
#pragma once

#include "kernels/device_kernels.h"

namespace weir {

void RegisterElementwiseKernels(DeviceKernels& kernels);  // the tables, also of activations; AddN
void RegisterFusedElementwiseKernels(DeviceKernels& kernels);
void RegisterClipKernels(DeviceKernels& kernels);
void RegisterReductionKernels(DeviceKernels& kernels);
void RegisterMatMulKernels(DeviceKernels& kernels);
void RegisterFusedMatMulKernels(DeviceKernels& kernels);
void RegisterBatchMatMulKernels(DeviceKernels& kernels);
void RegisterEinsumKernels(DeviceKernels& kernels);
void RegisterScanKernels(DeviceKernels& kernels);
void RegisterVectorKernels(DeviceKernels& kernels);
void RegisterSegmentKernels(DeviceKernels& kernels);

}  // namespace weir
