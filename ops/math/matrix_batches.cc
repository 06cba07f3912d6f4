#include "ops/math/matrix_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {

absl::StatusOr<PartialShape> BatchOf(const PartialShape& shape) {
  std::vector<int64_t> dims = DimsOf(shape);
  dims.resize(dims.size() - 2);
  return PartialShape::FromDims(dims);
}

Output SumRepeatedBatches(GradientContext& g, Output gradient, int input) {
  const PartialShape &x = g.input(input).shape(), &z = g.node().output_shape(0);
  if (g.node().op_name() == "BatchMatMul" ||
      (x.has_rank() && x.rank() == 2 && z.has_rank() && z.rank() == 2)) {
    return gradient;
  }
  bool is_same = x.has_rank() && z.has_rank() && x.rank() == z.rank();
  for (int i = 0; is_same && i < x.rank() - 2; ++i) is_same = x.dim(i) != kUnknown && x.dim(i) == z.dim(i);
  if (is_same) return gradient;
  const Output shape = formulas::ShapeOf(g, g.input(input));
  Node* axes = g.graph().AddNode("BroadcastGradientArgs", {shape, g.Add("Shape", {gradient})}, {}, "",
                                 g.node().source());
  if (axes == nullptr) return Output();
  return formulas::Reshape(g, formulas::Sum(g, gradient, axes->output(0)), shape);
}

absl::StatusOr<std::vector<int64_t>> DimsOfRightSide(ShapeInference& s, const PartialShape& matrix,
                                                     const PartialShape& rhs) {
  std::vector<int64_t> dims = DimsOf(rhs);
  bool fits = matrix.rank() == rhs.rank();
  for (int i = 0; fits && i + 1 < rhs.rank(); ++i) {
    const auto merged = s.MergeDims(matrix.dim(i), rhs.dim(i));
    fits = merged.ok();
    if (fits) dims[i] = *merged;
  }
  if (fits) return dims;
  return absl::InvalidArgumentError(
      absl::StrCat("matrix and rhs must have equal batches, and as many rows: matrix is ", matrix.ToString(),
                   ", rhs is ", rhs.ToString()));
}

absl::StatusOr<PartialShape> SquareMatrices(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRankAtLeast(0, 2));
  if (!shape.has_rank()) return shape;
  const auto n = s.MergeDims(shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1));
  if (!n.ok())
    return InvalidArgumentError(StrCat(s.input_name(0), " must be square matrices, is ", shape.ToString()));
  std::vector<int64_t> dims = DimsOf(shape);
  dims[dims.size() - 2] = dims.back() = *n;
  return PartialShape::FromDims(dims);
}

Status SquareShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, SquareMatrices(s));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Output BatchProduct(GradientContext& g, Output a, Output b, bool adjoint_a, bool adjoint_b) {
  return g.Add("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

Output Band(GradientContext& g, Output matrices, int below, int above) {
  return g.Add("MatrixBandPart",
               {matrices, g.Constant(DType::kInt64, below), g.Constant(DType::kInt64, above)});
}

}  // namespace weir
