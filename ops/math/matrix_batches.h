// Batches of matrices: tensors whose last two dimensions are a matrix's, and all before them the batch's.
// What the shape functions and gradients of ops on them share.
#pragma once

#include "absl/status/statusor.h"
#include "graph/gradients.h"
#include "graph/types/shape.h"

namespace weir {

// Precondition: the shape has a rank, of 2 or more.
absl::StatusOr<PartialShape> BatchOf(const PartialShape& shape);

// `gradient`, of a batch like that of the node's output 0, summed over the batches that the node's input
// `input` was repeated for, so that it has that input's shape.
Output SumRepeatedBatches(GradientContext& g, Output gradient, int input);

}  // namespace weir
