// Builds the nodes of collectives of one group of replicas (kernels/communicator.h).
//
// A collective is the nodes of one instance key, one on each replica: all replicas must add theirs in the
// same order. Nodes are not differentiable, and do not belong in conditionals or loops. Errors stick in the
// builder. Thread safety: as the builder.
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"
#include "kernels/communicator.h"

namespace weir {

class CollectiveNodes {
 public:
  // The first instance key that nodes added from now on may have. The same on all ranks whose graphs are.
  static int64_t NextInstance(const GraphBuilder& g);

  CollectiveNodes(int64_t group_key, int size, int64_t first_instance)
      : group_key_(group_key), size_(size), next_instance_(first_instance) {}

  int size() const { return size_; }

  // The elementwise reduction of all replicas' tensors; a sum is divided by their number when `averages`.
  Output AllReduce(GraphBuilder& g, Output x, Reduction reduction, bool averages, SourceLocation where);
  // All replicas' tensors, joined along dimension 0.
  Output AllGather(GraphBuilder& g, Output x, SourceLocation where);
  // The tensor of the replica that sends.
  Output Broadcast(GraphBuilder& g, Output x, bool sends, SourceLocation where);
  // What Horovod (horovod.h) says of each. No splits: as many rows to each.
  Output ReduceScatter(GraphBuilder& g, Output x, Reduction reduction, bool averages, SourceLocation where);
  Node* AllToAll(GraphBuilder& g, Output x, Output splits, SourceLocation where);
  Node* Barrier(GraphBuilder& g, SourceLocation where);
  Output Join(GraphBuilder& g, SourceLocation where);
  // A step that runs the first comes to the second when its updates are done (Communicator::BeginUpdates).
  Node* BeginUpdates(GraphBuilder& g, SourceLocation where);
  static Node* EndUpdates(GraphBuilder& g, const Node* begin, SourceLocation where);

 private:
  AttrMap ReductionAttrs(Reduction reduction, bool averages);
  AttrMap NextAttrs();

  const int64_t group_key_;
  const int size_;
  int64_t next_instance_;
};

}  // namespace weir
