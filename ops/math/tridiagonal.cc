// Matrices with elements on the main diagonal and beside it only.
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// `diagonals` inputs, then the right sides: batches of matrices, those of `rows` rows, one column for each
// row of the right sides.
Status ShapeOfSides(ShapeInference& s, int diagonals, int64_t rows) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs, s.WithRankAtLeast(diagonals, 2));
  s.set_output(0, rhs);
  for (int i = 0; i < diagonals; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRankAtLeast(i, 2));
    if (!shape.has_rank() || !rhs.has_rank()) continue;
    std::vector<int64_t> dims = DimsOf(rhs);
    dims[dims.size() - 1] = dims[dims.size() - 2];
    dims[dims.size() - 2] = rows;
    WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, PartialShape::FromDims(dims));
    if (wanted.IsCompatibleWith(shape)) continue;
    return InvalidArgumentError(StrCat(s.input_name(i), " must be ", wanted.ToString(), " for rhs ",
                                       rhs.ToString(), ", is ", shape.ToString()));
  }
  return OkStatus();
}

}  // namespace

std::vector<OpDef> TridiagonalOps() {
  return {
      {.name = "TridiagonalSolve",
       .summary = "Solves equations of tridiagonal matrices, which are given by their diagonals.",
       .infer_shapes = [](ShapeInference& s) { return ShapeOfSides(s, 1, 3); },
       .gradient = GradientMissing},
      {.name = "TridiagonalMatMul",
       .summary = "Multiplies tridiagonal matrices, which are given by their diagonals, by others.",
       .infer_shapes = [](ShapeInference& s) { return ShapeOfSides(s, 3, 1); },
       .gradient = GradientMissing},
  };
}

}  // namespace weir
