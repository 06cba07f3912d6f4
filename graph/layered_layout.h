// Where to draw the nodes of a graph: in layers, so that edges point downwards, ordered to cross little.
//
// The method is Sugiyama's: edges that close a cycle are turned round, a node's layer is the longest way to
// it, and the order within layers follows the mean place of neighbours, swept down and up a few times. Time:
// O((V + E) log V).
#pragma once

#include <vector>

namespace weir {

class LayeredLayout {
 public:
  explicit LayeredLayout(int num_nodes) : targets_(num_nodes) {}

  // Nodes are numbered from 0. Edges from a node to itself do not matter.
  void AddEdge(int from, int to);

  struct Result {
    std::vector<int> layer;      // of each node, from 0
    std::vector<double> center;  // of each node, in the units of widths
    int num_layers = 0;
    double width = 0;
  };
  // Boxes of one layer stand `gap` apart, and each layer in the middle.
  Result Place(const std::vector<double>& widths, double gap) const;

 private:
  int num_nodes() const { return static_cast<int>(targets_.size()); }
  // The edges without those that lead back to a node that is being visited: no cycle is left.
  std::vector<std::vector<int>> WithoutCycles() const;

  std::vector<std::vector<int>> targets_;
};

}  // namespace weir
