// Which nodes of a graph may have to wait for another part of the same step: a queue's Dequeue waits until
// something was put into the queue, and no edge says so.
//
// Whoever makes one node of several, so that a tensor comes later than it did, must ask here: the tensor may
// be the one that what it now waits for is waiting for.
//
// Cost: one pass over the graph; a few bytes a node if any node waits. Immutable. Thread safety: safe to read
// concurrently.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace weir {

// False for ops that surely never wait: those without state, those on variables, and those of a list (random
// ones, a queue's handle and its state). Any other op is taken for one that waits: a program's own may.
bool MayWaitForOthers(const Op& op);

class WaitingNodes {
 public:
  // `order`: a topological order of all nodes. What comes back around a loop is not seen.
  explicit WaitingNodes(const std::vector<Node*>& order);

  // True when `node` depends on a node that waits, and `than` does not, or perhaps does not.
  bool WaitsForMore(const Node& node, const Node& than) const {
    if (num_waiting_ == 0 || &node == &than) return false;
    return num_waiting_ > kMaxWaiting || (awaited_[node.id()] & ~awaited_[than.id()]) != 0;
  }

 private:
  static constexpr int kMaxWaiting = 64;  // beyond that they are not told apart

  int num_waiting_ = 0;
  std::vector<uint64_t> awaited_;  // by node id: a bit for each waiting node that it is, or depends on
};

}  // namespace weir
