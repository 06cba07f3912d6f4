// Collectives whose tensors stay in the memory of the GPU.
//
// A separate header, so that the kernels' common one need not know of kernels of the host. Pure functions.
#pragma once

#include <string>

#include "kernels/kernel_registry.h"

namespace weir::cuda {

// Whether OnGpus takes definitions of that op.
bool IsCollectiveOfGpus(const std::string& op);

// The definition for tensors of floating-point numbers in the GPU's memory, made of that of the host's
// kernel, which it calls where the group is not all GPUs of this process.
KernelDef OnGpus(const KernelDef& of_host);

}  // namespace weir::cuda
