// The rewrites of a step's graph, in their order:
//
//   prune (rewrite/prune.h, by the session under its lock) -> fold -> arithmetic -> common subexpressions
//   -> place (placer/placer.h) -> fuse
//
// Thread safety: concurrent for different graphs.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/rewrite/constant_folding.h"
#include "graph/rewrite/fusion.h"
#include "graph/rewrite/rewrite_options.h"

namespace weir {

// All that comes before placement. `graph`: of PruneToSignature. InvalidArgument for a graph with a cycle.
absl::Status RewriteBeforePlacement(Graph& graph, const NodeEvaluator& evaluate,
                                    const RewriteOptions& options = {});

// What comes after it; may put another graph in the place of `graph`.
absl::Status RewriteAfterPlacement(std::unique_ptr<Graph>& graph, const HasKernelFor& has_kernel,
                                   const RewriteOptions& options = {}, Waits waits = Waits::kMayGrow);

}  // namespace weir
