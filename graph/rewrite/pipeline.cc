#include "graph/rewrite/pipeline.h"

#include "graph/rewrite/arithmetic.h"
#include "graph/rewrite/common_subexpression.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::Status RewriteBeforePlacement(Graph& graph, const NodeEvaluator& evaluate,
                                    const RewriteOptions& options) {
  if (!options.is_enabled) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(FoldConstants(graph, evaluate));
  WEIR_RETURN_IF_ERROR(SimplifyArithmetic(graph, options));
  return MergeCommonSubexpressions(graph);
}

absl::Status RewriteAfterPlacement(std::unique_ptr<Graph>& graph, const HasKernelFor& has_kernel,
                                   const RewriteOptions& options, Waits waits) {
  return FuseNodes(graph, has_kernel, options, waits);
}

}  // namespace weir
