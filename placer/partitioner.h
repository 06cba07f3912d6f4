// Cuts a placed graph into one graph per device, joined by _Send/_Recv pairs.
//
// A tensor that several nodes of a device need crosses once. A control edge between devices crosses as an
// empty tensor. Edges are numbered from 0 over the whole plan (attr _edge).
//
// A loop whose nodes are on several devices runs on each of them. An edge within it carries a tensor in every
// iteration (attr _in_loop), and all its devices have the same iterations: each gets a small loop of control
// nodes that goes on as the loop's LoopCond says, whose value crosses in every iteration. A device whose
// nodes hand on nothing sends dead tensors, so the k-th that is sent is always the k-th that is received. The
// device of the LoopCond is never more than kLoopLead iterations ahead of another one, and the others not
// more than one ahead of it, so few tensors of an edge wait (kMaxQueued). Loops inside of others likewise.
// (Idea: Yu et al., "Dynamic Control Flow in Large-Scale Machine Learning", EuroSys 2018, section 4.4.)
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
  std::string loop;  // in every iteration of which it crosses; empty: once
};

struct PartitionedGraph {
  std::vector<Partition> partitions;  // by device name
  std::vector<CrossingEdge> edges;    // by edge number
};

// Precondition: every node has a whole assigned device. InvalidArgument when a resource handle would cross,
// for what FindLoopDevices refuses, and for a fetch from inside of a loop.
absl::StatusOr<PartitionedGraph> PartitionByDevice(const Graph& placed);

}  // namespace weir
