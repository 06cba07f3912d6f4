// An OpCase as a node of a graph. Pure functions.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/types/tensor.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

// The tensors of all inputs, one by one.
std::vector<Tensor> FlatInputs(const OpCase& test);

// How the inputs of a case come into a graph: `make` gives the node for flat input i.
using MakeInput = std::function<Output(int i, const Tensor& value)>;
// The case's node, named "tested"; null when the builder has an error.
Node* AddCase(GraphBuilder& g, const OpCase& test, const MakeInput& make);

}  // namespace weir::conformance
