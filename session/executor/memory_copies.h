// Puts copies into the graph of a device that has memory of its own: where a tensor is in one memory and a
// node wants it in the other.
//
// Where each argument of a kernel is its definition says (kernels/memory_kind.h). Arguments of the step come
// in the host's memory, and its results go there. What control flow hands on, and decides by, is on the host
// if it is of int32, int64 or bool, else on the device. A tensor is copied once, however many nodes want it.
// A constant is no copy: it is there in both memories before the step begins. What comes from the device for
// a node of the host has to be waited for; what is only fetched, the step waits for in its end.
//
// Small integer arithmetic on what is on the host (shapes, mostly) stays there, and so do other shapes of
// integers that only nodes of the host read: such nodes get the attr kOnHostAttr and a kernel of the CPU.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "kernels/kernel_registry.h"
#include "kernels/memory_kind.h"

namespace weir {

// `graph`: one device's part of a step. InvalidArgument for a cycle.
absl::Status InsertCopies(Graph& graph, absl::string_view device_type, const KernelRegistry& kernels);

// Of a node with kOnHostAttr.
ArgumentKinds AllOnHost(const Node& node);

// What a user knows the output as: of a copy, what was copied.
Output UncopiedOutput(const Output& output);

}  // namespace weir
