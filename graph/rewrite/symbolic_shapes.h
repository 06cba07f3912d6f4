// Which tensors of a graph have one shape in every step, also where dimensions are unknown before.
//
// Every unknown dimension is a symbol. Ops pass symbols on: an elementwise op the whole shape, a convolution
// the batch, a product of matrices its rows and columns. Two dimensions with the same symbol are equal in
// every step that computes both tensors; two with different symbols may be equal too.
//
// Cost: one pass over the graph. Immutable; changes to the graph that keep shapes do not make it wrong.
// Thread safety: safe to read concurrently.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace weir {

class SymbolicShapes {
 public:
  // `order`: a topological order of all nodes.
  explicit SymbolicShapes(const std::vector<Node*>& order);

  // False where it is not known, and for nodes that were added since.
  bool AreEqual(const Output& a, const Output& b) const;

 private:
  // Dimensions, and symbols below 0. Without a rank: one symbol of the whole.
  struct Symbols {
    std::vector<int64_t> dims;
    bool has_rank = false;
    friend bool operator==(const Symbols&, const Symbols&) = default;
  };

  const Symbols* Find(const Output& output) const;
  int64_t NewSymbol() { return --last_symbol_; }
  Symbols SymbolsOf(const Node& node, int output);
  // What is known of the shape, with the given dimensions (or symbols) where nothing is.
  Symbols Known(const PartialShape& shape, Symbols otherwise);
  Symbols Fresh(const PartialShape& shape);
  static Symbols Merge(const Symbols& a, const Symbols& b);
  static Symbols Broadcast(const Symbols& a, const Symbols& b, const Symbols& fresh);
  Symbols WithDimensionsOf(const Node& node, Symbols fresh) const;

  int64_t last_symbol_ = 0;
  std::vector<std::vector<Symbols>> of_nodes_;  // by node id, by output
};

}  // namespace weir
