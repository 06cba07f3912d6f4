// What layers do first and last: check that there is an input, and activate the result. Errors begin with the
// layer and the current name scope: "Dense 'dense': ...".
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"

namespace weir::layers {

// Whether x is there; otherwise an InvalidArgument, unless there was an error before.
bool HasInput(GraphBuilder& g, absl::string_view layer, const Output& x, SourceLocation where);

// activation(y), or y where there is none. InvalidArgument when the activation gives a null output.
Output Activate(GraphBuilder& g, absl::string_view layer, Output y, const Activation& activation,
                SourceLocation where);

}  // namespace weir::layers
