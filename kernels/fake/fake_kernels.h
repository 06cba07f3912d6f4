// The kernels of fake devices: the CPU's, which may touch the device's memory while they compute.
#pragma once

#include "graph/op_registry.h"
#include "kernels/kernel_registry.h"

namespace weir {

// The CPU's kernels under the type "GPU", for devices whose memory is the host's.
void RegisterFakeKernels(KernelRegistry& registry);

// Makes the kernels of type "GPU" those of devices with protected memory: it is open while one of them
// computes, and what a kernel gets and gives must be where its definition says (Internal). `ops`: those of
// the graphs.
void ProtectFakeKernels(KernelRegistry& registry, const OpRegistry& ops);

}  // namespace weir
