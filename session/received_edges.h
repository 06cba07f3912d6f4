// Which edges of a plan a worker receives, and where each one's slot is in a rendezvous.
//
// A plan of a large cluster has many edges, of which each task receives a few. A step's memory must grow with
// those, not with a number that a message claims.
//
// Immutable. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/runtime_ops.h"

namespace weir {

// Which of an edge's tensors of a step one is, counted from 0, where the edge is in a loop; kOnlyTurn where
// it is in none, and carries one.
inline constexpr int64_t kOnlyTurn = -1;
// So many tensors of an edge in a loop may wait: more cannot be between two devices that keep to the lead.
inline constexpr int64_t kMaxQueued = 2 * kLoopLead;

// An edge in a loop, at its receiver.
struct LoopEdge {
  int edge = 0;
  int head_start = 0;  // graph/runtime_ops.h
};

class ReceivedEdges {
 public:
  static constexpr int kNone = -1;

  // In any order; repeated ones count once.
  explicit ReceivedEdges(std::vector<int> edges);
  // Edges 0 to count - 1.
  static ReceivedEdges First(int count);

  size_t size() const { return edges_.size(); }
  int edge(size_t slot) const { return edges_[slot]; }

  // kNone for an edge that is not received. Constant time when the edges follow one another, as they do where
  // one task has them all; else logarithmic.
  int SlotOf(int edge) const {
    if (edges_.empty() || edge < edges_.front() || edge > edges_.back()) return kNone;
    const size_t place = static_cast<size_t>(edge) - static_cast<size_t>(edges_.front());
    if (place < edges_.size() && edges_[place] == edge) return static_cast<int>(place);
    return Search(edge);
  }

 private:
  int Search(int edge) const;

  std::vector<int> edges_;  // sorted
};

}  // namespace weir
