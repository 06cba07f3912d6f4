// Which edges of a plan a worker receives, and where each one's slot is in a rendezvous.
//
// A plan of a large cluster has many edges, of which each task receives a few. A step's memory must grow with
// those, not with a number that a message claims.
//
// Immutable. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <vector>

namespace weir {

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
