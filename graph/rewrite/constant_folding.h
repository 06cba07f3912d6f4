// Computes once, when a step is compiled, what would be the same in every step.
//
// A node is folded when it has no state and no control inputs and all its inputs are constants, or when it
// only asks for the shape, size or rank of a tensor whose shape is known. Its outputs become Const nodes. One
// that asks for a shape stays where other nodes wait for it: they may not run before the tensor is there.
// Nodes that nothing needs any more are dropped.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/tensor.h"

namespace weir {

// The outputs of a node for constant inputs; an error when it cannot be computed now. Folding then leaves the
// node to fail, or not, in the step.
using NodeEvaluator =
    std::function<absl::StatusOr<std::vector<Tensor>>(const Node& node, absl::Span<const Tensor> inputs)>;

struct ConstantFoldingOptions {
  // Larger results stay computed: they would make the plan and its messages big. Where the shapes tell it,
  // they are not computed here at all.
  int64_t max_bytes_per_constant = int64_t{10} << 20;
};

// `graph`: pruned to a signature (rewrite/prune.h). Nodes that are targets of the step may be dropped when
// folded: they have no effect.
absl::Status FoldConstants(Graph& graph, const NodeEvaluator& evaluate,
                           const ConstantFoldingOptions& options = {});

}  // namespace weir
