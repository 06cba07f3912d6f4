// Finds elementwise ops that can run as one: a node, the nodes that only it reads, the nodes that only those
// read, and so on.
//
// All have one dtype, and one shape in every step; an operand has that shape or is one element. Only the last
// node's result is read from outside, so the fused node cannot become part of a cycle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/op_registry.h"

namespace weir {

struct ElementwiseCluster {
  std::vector<Node*> nodes;  // in the order in which they run; the last one gives the result
  // What _FusedElementwise takes (graph/fused_ops.h).
  std::vector<Output> inputs;
  std::vector<std::string> ops;
  std::vector<int64_t> operands;
};

// What a search asks about the graph; its caller implements it.
class ClusterQuestions {
 public:
  virtual ~ClusterQuestions() = default;
  // True when only nodes of the cluster read the node's values (others may read its shape), and no control
  // edge leaves it.
  virtual bool IsReadWithin(Node& node, const absl::flat_hash_set<const Node*>& cluster) = 0;
  virtual bool HaveOneShape(const Output& a, const Output& b) = 0;
  // A node's place in a topological order.
  virtual int Position(const Node& node) = 0;
};

// The ops that clusters are made of. Thread safety: immutable.
class ElementwiseClusterOps {
 public:
  explicit ElementwiseClusterOps(const OpRegistry& registry);

  static absl::Span<const char* const> Names();
  bool Contains(const Node& node) const { return ops_.contains(&node.op()); }

  // The largest cluster that ends with `last`. It has no nodes if `last` would be the only one.
  ElementwiseCluster FindCluster(Node& last, ClusterQuestions& questions) const;

 private:
  absl::flat_hash_set<const Op*> ops_;
};

}  // namespace weir
