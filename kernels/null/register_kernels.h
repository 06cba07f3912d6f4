// The kernels of the null device: one, for every op.
#pragma once

#include "graph/op_registry.h"
#include "kernels/kernel_registry.h"

namespace weir {

// Registers the kernel for every op that `ops` has now, whatever the dtypes.
void RegisterNullKernels(const OpRegistry& ops, KernelRegistry& registry);

}  // namespace weir
