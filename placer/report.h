// The placement report: what a person reads to see where a model runs and what crosses.
#pragma once

#include <string>
#include <vector>

#include "graph/drawing.h"
#include "graph/graph.h"
#include "placer/partitioner.h"

namespace weir {

struct PlacementReport {
  // A table of nodes and bytes of variables per device, what is to be said about nodes that are where nobody
  // may expect them, then the crossing tensors with their type, largest first:
  //   /job:ps/replica:0/task:0/device:CPU:0       14 nodes    3 variables  1.1 MB
  //   3 nodes (VarHandleOp 'w' and others) are on /job:ps/...: there is no GPU kernel for ResourceScatterAdd
  //   dense/kernel/Read:0  float[784,300]  940.8 kB  /job:ps/... -> /job:worker/...
  // With what crosses within a loop: in every iteration of 'while'.
  std::string text;
  // Every node in its device's colour, and what crosses with its type and size.
  Drawing drawing{"placement"};
};

// Precondition: every node of `placed` has an assigned device. `remarks`: those of PlaceGraph, and others.
PlacementReport ReportPlacement(const Graph& placed, const PartitionedGraph& partitioned,
                                const std::vector<std::string>& remarks = {});

}  // namespace weir
