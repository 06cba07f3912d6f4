// Factors of matrices, inverses, determinants, and linear equations.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/math/matrix_batches.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Status BatchShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, SquareMatrices(s));
  if (!shape.has_rank()) return OkStatus();
  WEIR_ASSIGN_OR_RETURN(const PartialShape batch, BatchOf(shape));
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, batch);
  return OkStatus();
}

Status LuShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, SquareMatrices(s));
  if (!shape.has_rank()) return OkStatus();
  s.set_output(0, shape);
  std::vector<int64_t> dims = DimsOf(shape);
  dims.pop_back();
  return SetOutputDims(s, 1, dims);
}

Status SolveShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape matrix, SquareMatrices(s));
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs, s.WithRankAtLeast(1, 2));
  if (!matrix.has_rank() || !rhs.has_rank()) {
    s.set_output(0, rhs);
    return OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, DimsOfRightSide(s, matrix, rhs));
  return SetOutputDims(s, 0, dims);
}

// Of a = l l^T, by Murray, "Differentiation of the Cholesky decomposition" (2016), arXiv:1602.07527: with m
// the lower triangle of l^T dl, its diagonal halved, it is the symmetric part of l^-T m l^-1. As TensorFlow's
// it spreads over both triangles of `a`, though only one is read.
Status CholeskyGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output l = g.output(0), ones = g.Add("OnesLike", {g.Add("MatrixDiagPart", {l})});
  // NaN where the matrix had no such l, as the result: a solution of triangles refuses nothing.
  const Output inverse = g.Add("MatrixTriangularSolve", {l, g.Add("MatrixDiag", {ones})});
  const Output product = BatchProduct(g, l, g.grad(0), true);
  const Output m = Sub(g, Band(g, product, -1, 0), Scale(g, 0.5, Band(g, product, 0, 0)));
  const Output half = BatchProduct(g, BatchProduct(g, inverse, m, true), inverse);
  const Output other_half = BatchProduct(g, BatchProduct(g, inverse, m, true, true), inverse);
  g.set_input_grad(0, Scale(g, 0.5, Add(g, half, other_half)));
  return OkStatus();
}

Status InverseGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output y = g.output(0), dy = g.grad(0);
  const Output product = g.attr<bool>("adjoint")
                             ? BatchProduct(g, BatchProduct(g, y, dy, false, true), y)
                             : BatchProduct(g, BatchProduct(g, y, dy, true), y, false, true);
  g.set_input_grad(0, Neg(g, product));
  return OkStatus();
}

// Of A x = b: db solves A^T db = dx, and dA = -db x^T.
Status SolveGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const bool adjoint = g.attr<bool>("adjoint");
  const Output x = g.output(0);
  const Output db = g.Add("MatrixSolve", {g.input(0), g.grad(0)}, {{"adjoint", !adjoint}});
  g.set_input_grad(
      0, Neg(g, adjoint ? BatchProduct(g, x, db, false, true) : BatchProduct(g, db, x, false, true)));
  g.set_input_grad(1, db);
  return OkStatus();
}

// `factor` times the transposed inverse, which is the derivative of the logarithm of a determinant.
Output TimesInverse(GradientContext& g, Output factor) {
  const Output inverse = g.Add("MatrixInverse", {g.input(0)}, {{"adjoint", true}});
  const Output last = g.Constant(DType::kInt32, -1);
  return Mul(g, g.Add("ExpandDims", {g.Add("ExpandDims", {factor, last}), last}), inverse);
}

Status DeterminantGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  g.set_input_grad(0, TimesInverse(g, Mul(g, g.grad(0), g.output(0))));
  return OkStatus();
}

Status LogDeterminantGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output grad = g.grad(1);
  if (grad.node != nullptr) g.set_input_grad(0, TimesInverse(g, grad));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> LinearEquationsOps() {
  return {
      {.name = "Cholesky",
       .summary =
           "Gives lower triangular matrices whose products with their adjoints are the positive definite "
           "ones of the input, of which the lower triangles are read.",
       .infer_shapes = SquareShape,
       .gradient = CholeskyGradient},
      {.name = "MatrixInverse",
       .summary = "Gives the inverses of square matrices, or of their adjoints.",
       .infer_shapes = SquareShape,
       .gradient = InverseGradient},
      {.name = "MatrixSolve",
       .summary = "Solves matrix * output = rhs for square matrices, or for their adjoints.",
       .infer_shapes = SolveShape,
       .gradient = SolveGradient},
      {.name = "Lu",
       .summary =
           "Gives square matrices as products of a lower and an upper triangular one, both in `lu`, after "
           "their rows are put into the order `p`.",
       .infer_shapes = LuShape,
       .gradient = NotDifferentiable},
      {.name = "MatrixDeterminant",
       .summary = "Gives the determinants of square matrices.",
       .infer_shapes = BatchShape,
       .gradient = DeterminantGradient},
      {.name = "LogMatrixDeterminant",
       .summary = "Gives the signs of the determinants of square matrices and the logarithms of their sizes.",
       .infer_shapes = BatchShape,
       .gradient = LogDeterminantGradient},
  };
}

}  // namespace weir
