// Errors of nodes: which node, on which device. An executor makes them of what kernels return; a device that
// finds out later makes its own.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/types/device_name.h"

namespace weir {

// The payload of such an error: the name of the node.
inline constexpr char kNodePayload[] = "weir.node";

// "MatMul 'dense/mm' on /job:localhost/replica:0/task:0/device:CPU:0: what is wrong", with the payload. An
// error that has it already stays as it is.
absl::Status ErrorOfNode(absl::string_view op, absl::string_view name, const DeviceName& device,
                         const absl::Status& status);

}  // namespace weir
