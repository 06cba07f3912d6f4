// What losses do first and last: check that labels and predictions fit, cast them, and weigh the losses.
// Metrics check and cast with it, too.
#pragma once

#include "graph/graph_builder.h"
#include "ops/losses/weighted_loss.h"

namespace weir::losses {

// Whether both are there and their shapes may be equal; otherwise an InvalidArgument that shows both.
bool CheckSameShapes(GraphBuilder& g, absl::string_view name, const Output& labels, const Output& predictions,
                     SourceLocation where);

// x in the dtype.
Output CastTo(GraphBuilder& g, Output x, DType dtype, SourceLocation where);

// The options with a name, where they have none.
LossOptions Named(LossOptions options, absl::string_view name);

// ComputeWeightedLoss in the current name scope.
Output Weigh(GraphBuilder& g, Output losses, const LossOptions& options, SourceLocation where);

}  // namespace weir::losses
