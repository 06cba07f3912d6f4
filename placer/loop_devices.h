// On which devices the nodes of a placed graph run where it has loops, and which loops run on several.
//
// A node runs on the device that it was given, but for three kinds. An Enter and a NextIteration run on every
// device that has a reader: what they hand on is there in some iterations only, or in all of them, and so
// cannot cross like other tensors; what they are given can. An Exit runs where its input is made, so that
// nothing crosses in the iterations that it hands nothing on.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/loops.h"
#include "graph/types/device_name.h"

namespace weir {

struct LoopDevices {
  struct OfLoop {
    // Those on which something runs in its iterations, or in those of a loop inside.
    std::vector<DeviceName> devices;
    // Its LoopCond; set where there are several devices.
    const Node* condition = nullptr;

    bool spans_devices() const { return devices.size() > 1; }
  };

  Loops loops;
  std::vector<std::vector<DeviceName>> of_node;  // by node id; never empty
  std::vector<OfLoop> of_loop;

  // Precondition: the node is no Enter and no NextIteration.
  const DeviceName& of(const Node& node) const { return of_node[node.id()].front(); }
};

// Precondition: every node has a whole assigned device. InvalidArgument: what FindLoops refuses; a loop of
// several devices that has not one LoopCond, which alone can tell them all whether it goes on.
absl::StatusOr<LoopDevices> FindLoopDevices(const Graph& placed);

}  // namespace weir
