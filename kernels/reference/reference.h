// An op again, as its definition reads: for tests to compare real kernels with.
//
// Slow and obvious on purpose: all numbers are complex doubles, every element is found by its coordinates.
// Inputs must be valid; values must be exact in double. Results are rounded to the dtype of the output.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "graph/node.h"
#include "graph/types/tensor.h"
#include "kernels/reference/array.h"

namespace weir::reference {

// The outputs of the node by `reference`.
std::vector<Tensor> Evaluate(const Reference& reference, const Node& node, absl::Span<const Tensor> inputs);

}  // namespace weir::reference
