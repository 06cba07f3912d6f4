// Decides the device of every node.
//
// Nodes that must be together form a group (node_groups.h): a variable's updates run where the variable
// lives. Nodes that name the same node share its group even where a step was pruned of it; its own request is
// then unknown and does not count. A group goes to a device that satisfies every member's request and has a
// kernel for every member, and for what the session's other steps do with its resources (resource_kinds.h).
// Among those, the default task's come first, then the kind that `preferred_types` names first, then the
// lowest name.
//
// A step has only a part of a graph, and of a group. What keeps state must be in one place for all steps, so
// a session lets the whole graph decide where that is (PlaceState).
//
// Errors name the nodes, what each asked for, and the devices that exist.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/device_name.h"
#include "placer/resource_kinds.h"

namespace weir {

// The devices of nodes that keep state between steps (variables, queues, iterators...), by name.
using StatePlaces = absl::flat_hash_map<std::string, DeviceName>;

struct PlacerOptions {
  // Where unconstrained nodes go when they can: the session's own task.
  DeviceName default_task;
  // Let a node whose requested kind or index of device does not exist, or has no kernel for it, run elsewhere
  // on the requested task.
  bool allow_soft_placement = true;
  // Best first; kinds not listed come last.
  std::vector<std::string> preferred_types = {"GPU", "CPU"};
  // Of the whole graph, when only a part of it is placed.
  UnfitKinds unfit_kinds;
  // Borrowed. A group with one of these nodes goes where that is, whatever its members ask for. May be null.
  const StatePlaces* state_places = nullptr;
};

// Sets assigned_device of every node. `devices`: whole names of all devices of the cluster. Adds to
// `remarks`, unless it is null, a line for nodes that are not on the kind of device that they asked for or
// that comes first, with the reason: "3 nodes (VarHandleOp 'w' and others) are on /job:...:0: there is no GPU
// kernel for ResourceScatterAdd". Possible errors: InvalidArgument (requests in a group contradict each
// other; no device fits).
absl::Status PlaceGraph(Graph& graph, absl::Span<const DeviceName> devices,
                        const KernelAvailability& has_kernel, const PlacerOptions& options = {},
                        std::vector<std::string>* remarks = nullptr);

// Adds the places of those nodes of a whole graph that keep state. Those that are there already stay: a graph
// may grow after its first step. A group that fits no device with the
// requests of those that only use its state goes where it would without them; one that fits none then has no
// place, and the steps that need it have the error.
void PlaceState(const Graph& graph, absl::Span<const DeviceName> devices,
                const KernelAvailability& has_kernel, const PlacerOptions& options, StatePlaces* places);

}  // namespace weir
