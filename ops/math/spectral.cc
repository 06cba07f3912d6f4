// Eigenvalues, singular values, and what is solved with them.
#include <algorithm>
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

// The batch of matrices of that shape, with other last dimensions.
Status SetBatch(ShapeInference& s, int output, const PartialShape& shape, std::vector<int64_t> inner) {
  std::vector<int64_t> dims = DimsOf(shape);
  dims.resize(dims.size() - 2);
  dims.insert(dims.end(), inner.begin(), inner.end());
  return SetOutputDims(s, output, dims);
}

Status EigShape(ShapeInference& s) {
  if (!s.attr<bool>("compute_v")) s.set_output(1, PartialShape({}));
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRankAtLeast(0, 2));
  if (!shape.has_rank()) return OkStatus();
  const auto n = s.MergeDims(shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1));
  if (!n.ok()) return InvalidArgumentError(StrCat("Input matrix must be square. It is ", shape.ToString()));
  WEIR_RETURN_IF_ERROR(SetBatch(s, 0, shape, {*n}));
  return s.attr<bool>("compute_v") ? SetBatch(s, 1, shape, {*n, *n}) : OkStatus();
}

Status SvdShape(ShapeInference& s) {
  const bool wants_vectors = s.attr<bool>("compute_uv"), is_full = s.attr<bool>("full_matrices");
  for (const int i : {1, 2})
    if (!wants_vectors) s.set_output(i, PartialShape({}));
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRankAtLeast(0, 2));
  if (!shape.has_rank()) return OkStatus();
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  const bool are_known = rows != kUnknown && columns != kUnknown;
  const int64_t count = are_known ? std::min(rows, columns) : rows == 0 || columns == 0 ? 0 : kUnknown;
  WEIR_RETURN_IF_ERROR(SetBatch(s, 0, shape, {count}));
  if (!wants_vectors) return OkStatus();
  WEIR_RETURN_IF_ERROR(SetBatch(s, 1, shape, {rows, is_full ? rows : count}));
  return SetBatch(s, 2, shape, {columns, is_full ? columns : count});
}

Status LeastSquaresShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRankAtLeast(1, 2));
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
  if (!a.has_rank() || !b.has_rank()) return OkStatus();
  WEIR_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOfRightSide(s, a, b));
  dims[dims.size() - 2] = a.dim(a.rank() - 1);
  return SetOutputDims(s, 0, dims);
}

// Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
// (2008), section 3.1. Only the lower triangle is read, so it gets what would flow to both.
Status EigGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  Output v = g.output(1);
  if (!g.attr<bool>("compute_v")) {
    Node* const node = g.graph().AddNode("SelfAdjointEigV2", {g.input(0)}, {}, "", g.node().source());
    if (node == nullptr) return OkStatus();  // the builder has the error
    v = node->output(1);
  }
  Output middle;
  if (g.grad(0).node != nullptr) middle = g.Add("MatrixDiag", {g.grad(0)});
  if (g.attr<bool>("compute_v") && g.grad(1).node != nullptr) {
    const Output e = g.output(0);
    const Output across = g.Add("ExpandDims", {e, g.Constant(DType::kInt32, -2)});
    const Output down = g.Add("ExpandDims", {e, g.Constant(DType::kInt32, -1)});
    const Output inverse = g.Add("DivNoNan", {One(g, e), Sub(g, across, down)});
    const Output turned = Mul(g, inverse, BatchProduct(g, v, g.grad(1), true));
    middle = middle.node == nullptr ? turned : Add(g, middle, turned);
  }
  if (middle.node == nullptr) return OkStatus();
  // The sum of both sides below the diagonal, and half of it on the diagonal, where they are equal.
  const Output whole = BatchProduct(g, v, BatchProduct(g, middle, v, false, true));
  const Output adjoint = BatchProduct(g, v, BatchProduct(g, middle, v, true, true));
  const Output both = Add(g, whole, adjoint);
  g.set_input_grad(0, Sub(g, Band(g, both, -1, 0), Scale(g, 0.5, Band(g, both, 0, 0))));
  return OkStatus();
}

DType RealPartOf(DType dtype) { return dtype == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32; }

// Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach, "On the Computation of Complex-valued Gradients with
// Application to Statistically Optimum Beamforming" (2017), arXiv:1701.00392, equation 4.77; of eigenvalues
// that differ, and vectors of length 1.
Status GeneralEigGradient(GradientContext& g) {
  const bool has_vectors = g.attr<bool>("compute_v");
  Output v = g.output(1);
  if (!has_vectors) {
    Node* const node =
        g.graph().AddNode("Eig", {g.input(0)}, {{"Tout", g.output(0).dtype()}}, "", g.node().source());
    if (node == nullptr) return OkStatus();  // the builder has the error
    v = node->output(1);
  }
  Output middle;
  if (g.grad(0).node != nullptr) middle = g.Add("MatrixDiag", {g.grad(0)});
  if (has_vectors && g.grad(1).node != nullptr) {
    const Output e = g.output(0);
    const Output difference = Sub(g, g.Add("ExpandDims", {e, g.Constant(DType::kInt32, -2)}),
                                  g.Add("ExpandDims", {e, g.Constant(DType::kInt32, -1)}));
    // 0 on the diagonal.
    const Output square = Add(g, Mul(g, difference, difference), g.Constant(e.dtype(), 1e-20));
    const Output inverse = g.Add("Conj", {Div(g, difference, square)});
    const Output turned = BatchProduct(g, v, g.grad(1), true);
    const Output lengths = Cast(
        g, g.Add("Real", {g.Add("MatrixDiagPart", {turned})}, {{"Tout", RealPartOf(e.dtype())}}), e.dtype());
    const Output along = BatchProduct(g, BatchProduct(g, v, v, true), g.Add("MatrixDiag", {lengths}));
    const Output from_vectors = Mul(g, inverse, Sub(g, turned, along));
    middle = middle.node == nullptr ? from_vectors : Add(g, middle, from_vectors);
  }
  if (middle.node == nullptr) return OkStatus();
  const Output whole =
      g.Add("MatrixSolve", {v, BatchProduct(g, middle, v, false, true)}, {{"adjoint", true}});
  g.set_input_grad(0, g.input(0).dtype() == g.output(0).dtype() ? whole : Cast(g, whole, g.input(0).dtype()));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SpectralOps() {
  return {
      {.name = "Eig",
       .summary = "Gives the eigenvalues of square matrices, by their size, and their eigenvectors.",
       .infer_shapes = EigShape,
       .gradient = GeneralEigGradient},
      {.name = "SelfAdjointEigV2",
       .summary =
           "Gives the eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangles "
           "are read.",
       .infer_shapes = EigShape,
       .gradient = EigGradient},
      {.name = "Svd",
       .summary = "Gives the singular values and vectors of matrices: input = u * diag(s) * adjoint(v).",
       .infer_shapes = SvdShape,
       .gradient = GradientMissing},
      {.name = "MatrixSolveLs",
       .summary = "Gives the output of least size for which matrix * output is closest to rhs.",
       .infer_shapes = LeastSquaresShape,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
