// Runs nodes one after another outside of a session's steps: for constant folding and tests. Slow and simple.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/device.h"
#include "kernels/kernel_registry.h"

namespace weir {

// The outputs of one node for the given inputs (host tensors, as many and of the types that the node takes).
// InvalidArgument when they are not; NotFound without a kernel; else the kernel's error. Errors name the
// node. A kernel never writes into `inputs`: their buffers count as shared.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 Device& device, const KernelRegistry& kernels);
// The same for a kernel that uses what that session has: files, functions. It sees `cancellation` as that of
// its step.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 Device& device, const KernelRegistry& kernels,
                                                 SessionState* session, Cancellation& cancellation);

// The values of `outputs` in a step of its own, everything on `device`. `feeds` replace the outputs they
// name, and nodes that only they need do not run. Control inputs are obeyed. InvalidArgument for a graph with
// a cycle.
absl::StatusOr<std::vector<Tensor>> EvaluateGraph(absl::Span<const Output> outputs,
                                                  absl::Span<const std::pair<Output, Tensor>> feeds,
                                                  Device& device, const KernelRegistry& kernels);

}  // namespace weir
