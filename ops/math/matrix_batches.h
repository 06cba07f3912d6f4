// Batches of matrices: tensors whose last two dimensions are a matrix's, and all before them the batch's.
// What the shape functions and gradients of ops on them share.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/shape.h"

namespace weir {

// Precondition: the shape has a rank, of 2 or more.
absl::StatusOr<PartialShape> BatchOf(const PartialShape& shape);

// `gradient`, of a batch like that of the node's output 0, summed over the batches that the node's input
// `input` was repeated for, so that it has that input's shape.
Output SumRepeatedBatches(GradientContext& g, Output gradient, int input);

// The dimensions of `rhs`, with what is known of the batches and rows of `matrix`, which are to be the same;
// InvalidArgument, with both shapes, when they are not. Precondition: both have a rank, of 2 or more.
absl::StatusOr<std::vector<int64_t>> DimsOfRightSide(ShapeInference& s, const PartialShape& matrix,
                                                     const PartialShape& rhs);

// Input 0 as a batch of square matrices: its shape with both last dimensions known where one is.
absl::StatusOr<PartialShape> SquareMatrices(ShapeInference& s);

// output 0: input 0, a batch of square matrices.
absl::Status SquareShape(ShapeInference& s);

Output BatchProduct(GradientContext& g, Output a, Output b, bool adjoint_a = false, bool adjoint_b = false);

// The part of matrices from `below` diagonals under the main one to `above` over it; -1: all.
Output Band(GradientContext& g, Output matrices, int below, int above);

}  // namespace weir
