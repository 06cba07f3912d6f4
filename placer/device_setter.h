// Device setters: choose each new node's device while the graph is built (GraphBuilder's second argument).
//
// ReplicaDeviceSetter is between-graph replication's: variables, mutable tables and resource accumulators go
// to the ps tasks, everything else to this worker. It gives the devices that TensorFlow's
// tf.train.replica_device_setter gives for the same sequence of nodes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph_builder.h"

namespace weir {

// Picks a ps task in [0, num_ps_tasks) for a new node that holds state: a variable, a mutable table or a
// resource accumulator. Called once for each that does not ask for another job, in order of creation; two
// workers that build the same graph get the same answers, which is what makes them share variables. Tables
// have no attrs `shape` and `dtype`.
using PlacementStrategy = std::function<int(const Node& holder)>;

// 0, 1, ..., n-1, 0, 1...
PlacementStrategy RoundRobinStrategy(int num_ps_tasks);

// The task with the fewest bytes so far (the lowest on a tie). A variable whose shape is not fully known
// counts 1 byte, and so does a table.
PlacementStrategy GreedyBytesStrategy(int num_ps_tasks);

struct ReplicaDeviceSetterOptions {
  int num_ps_tasks = 0;  // 0: no setter is needed; everything stays where its author asked
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  PlacementStrategy strategy;  // empty: round robin
};

DeviceSetter ReplicaDeviceSetter(ReplicaDeviceSetterOptions options);

}  // namespace weir
