// The ops that compute in the memory of a device that has its own, and what of their arguments is in the
// host's memory all the same: shapes, axes and sizes, which say how much is computed before anything is.
//
// One table for all such devices, the fake one too. An op that is not in it runs with all its arguments on
// the host. Elementwise ops are in it without being named.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "graph/op_registry.h"
#include "kernels/kernel_registry.h"

namespace weir {

// Sets host_inputs, host_outputs and is_on_host of the definitions for that type of device. `ops`: where the
// elementwise ones are looked up.
void SetHostArguments(KernelRegistry& kernels, absl::string_view device_type, const OpRegistry& ops);

// In alphabetical order, without the elementwise ones.
std::vector<std::string> NamesOfDeviceOps();

}  // namespace weir
