// Cuts a placed graph into one graph per device, joined by _Send/_Recv pairs.
//
// A tensor that several nodes of a device need crosses once. A control edge between devices crosses as an
// empty tensor. Edges are numbered from 0 over the whole plan (attr _edge).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/types/device_name.h"

namespace weir {

struct Partition {
  DeviceName device;
  std::unique_ptr<Graph> graph;
};

// One tensor that crosses between devices.
struct CrossingEdge {
  std::string tensor_name;  // "dense/kernel/Read:0", or "^node" for a control edge
  DeviceName from;
  DeviceName to;
};

struct PartitionedGraph {
  std::vector<Partition> partitions;  // by device name
  std::vector<CrossingEdge> edges;    // by edge number
};

// Precondition: every node has a whole assigned device. InvalidArgument when a resource handle would cross.
absl::StatusOr<PartitionedGraph> PartitionByDevice(const Graph& placed);

}  // namespace weir
