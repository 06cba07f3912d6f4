// What a layer does to its result, element by element: Relu, Tanh, Sigmoid... or a lambda of these
// parameters.
#pragma once

#include <functional>

#include "graph/graph_builder.h"

namespace weir::layers {

using Activation =
    std::function<Output(GraphBuilder& g, Output x, const NodeOptions& options, SourceLocation where)>;

}  // namespace weir::layers
