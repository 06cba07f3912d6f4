// Which kinds of devices have no place for a resource, such as a variable.
//
// A step has a part of its session's graph, and each step must find a variable where the others do. So this
// is looked for in the whole graph: a kind of device that lacks a kernel for one of the nodes that must be
// where the resource is (node_groups.h) is not for it in any step. And a resource that a step has been placed
// with stays on that kind of device, whatever the graph has got since.
//
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/device_name.h"

namespace weir {

// True when that kind of device has a kernel for the node (kernels/kernel_registry.h, asked by session/).
using KernelAvailability = std::function<bool(const Node& node, absl::string_view device_type)>;

// Why a group of nodes cannot be on a kind of device.
struct Unfit {
  std::string op;     // the first one that has no kernel there; empty: the group's resource is elsewhere
  std::string node;   // described: of that op, or the one that gives the resource
  std::string is_on;  // the kind that the resource is on
  // "there is no GPU kernel for ResourceScatterAdd"; with the node, "... 'rows/update'".
  std::string Reason(absl::string_view device_type) const;
  std::string ReasonWithNode(absl::string_view device_type) const;
};

// By the name of the node that gives the handle, and the kind of device.
using UnfitKinds = absl::flat_hash_map<std::string, std::map<std::string, Unfit>>;

// By the name of the node that gives the handle: the kind of device that it is on.
using KindsOfResources = absl::flat_hash_map<std::string, std::string>;

// Of all resources of the graph, for the kinds among `devices`. Empty where all devices are of one kind.
UnfitKinds FindUnfitKinds(const Graph& graph, absl::Span<const DeviceName> devices,
                          const KernelAvailability& has_kernel, const KindsOfResources& placed);

// Whether the node gives resource handles that it has not got from others.
bool GivesResource(const Node& node);

// Of the resources of a graph in which every node has an assigned device.
KindsOfResources KindsOfPlacedResources(const Graph& placed);

}  // namespace weir
