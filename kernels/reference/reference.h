// Every op again, as its definition reads: for tests to compare real kernels with.
//
// Slow and obvious on purpose: all numbers are complex doubles, every element is found by its coordinates.
// Inputs must be valid; values must be exact in double. Results are rounded to the dtype of the output.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "graph/types/tensor.h"

namespace weir::reference {

bool HasReference(absl::string_view op);

// The outputs of the node; NotFound for an op without a reference.
absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> inputs);

}  // namespace weir::reference
