// The kernels of _Send and _Recv, for every kind of device: they join partitions through the step's
// rendezvous.
#pragma once

#include "absl/strings/string_view.h"
#include "kernels/kernel_registry.h"

namespace weir {

void RegisterTransferKernels(KernelRegistry& registry, absl::string_view device_type);

}  // namespace weir
