// Sparse matrices in compressed rows, as variants.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status SetScalar(ShapeInference& s) {
  s.set_output(0, PartialShape({}));
  return OkStatus();
}

Status CheckMatrices(ShapeInference& s, int count) {
  for (int i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

Status FromSparseShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRank(1, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRank(2, 1));
  if (indices.has_rank() && shape.has_rank() && !s.MergeDims(indices.dim(1), shape.dim(0)).ok()) {
    return InvalidArgumentError(
        StrCat("Index rank (", indices.dim(1), ") and shape rank (", shape.dim(0), ") do not match"));
  }
  if (indices.has_rank() && values.has_rank() && !s.MergeDims(indices.dim(0), values.dim(0)).ok()) {
    return InvalidArgumentError(StrCat("Number of elements in indices (", indices.dim(0), ") and values (",
                                       values.dim(0), ") do not match"));
  }
  return SetScalar(s);
}

Status FromDenseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(0, 2).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 2).status());
  return SetScalar(s);
}

Status ToSparseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckMatrices(s, 1));
  s.set_output(0, PartialShape({kUnknown, kUnknown}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, PartialShape({kUnknown}));
  return OkStatus();
}

Status ComponentsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckMatrices(s, 2));
  for (int i = 0; i < 3; ++i) s.set_output(i, PartialShape({kUnknown}));
  return OkStatus();
}

Status OneMatrix(ShapeInference& s) { return CheckMatrices(s, 1); }

Status TransposeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckMatrices(s, 1));
  return SetScalar(s);
}

Status SparseProductShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckMatrices(s, 2));
  return SetScalar(s);
}

Status DenseProductShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckMatrices(s, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRankAtLeast(1, 2));
  if (b.has_rank()) s.set_output(0, PartialShape::OfRank(b.rank()));
  return OkStatus();
}

Output ToSparse(GradientContext& g, Output matrix, DType dtype, int output) {
  Node* const node =
      g.graph().AddNode("CSRSparseMatrixToSparseTensor", {matrix}, {{"type", dtype}}, "", g.node().source());
  return node == nullptr ? Output() : node->output(output);
}

Status FromSparseGradient(GradientContext& g) {
  g.set_input_grad(1, ToSparse(g, g.grad(0), g.input(1).dtype(), 1));
  return OkStatus();
}

Status FromDenseGradient(GradientContext& g) {
  g.set_input_grad(0, g.Add("CSRSparseMatrixToDense", {g.grad(0)}, {{"type", g.input(0).dtype()}}));
  return OkStatus();
}

Status ToSparseGradient(GradientContext& g) {
  if (g.grad(1).node == nullptr) return OkStatus();
  g.set_input_grad(0, g.Add("SparseTensorToCSRSparseMatrix", {g.output(0), g.grad(1), g.output(2)}));
  return OkStatus();
}

Status ToDenseGradient(GradientContext& g) {
  const Output indices = ToSparse(g, g.input(0), g.grad(0).dtype(), 0);
  const Output shape = g.Add("Shape", {g.grad(0)}, {{"out_type", DType::kInt64}});
  g.set_input_grad(
      0, g.Add("SparseTensorToCSRSparseMatrix", {indices, g.Add("GatherNd", {g.grad(0), indices}), shape}));
  return OkStatus();
}

Status TransposeGradient(GradientContext& g) {
  g.set_input_grad(0, g.Add("SparseMatrixTranspose", {g.grad(0)},
                            {{"type", g.attr<DType>("type")}, {"conjugate", g.attr<bool>("conjugate")}}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> CsrMatricesOps() {
  return {
      {.name = "SparseTensorToCSRSparseMatrix",
       .summary = "Gives a variant that is the matrices of a sparse tensor, in compressed rows.",
       .infer_shapes = FromSparseShape,
       .gradient = FromSparseGradient},
      {.name = "CSRSparseMatrixToSparseTensor",
       .summary = "Gives sparse matrices as a sparse tensor.",
       .infer_shapes = ToSparseShape,
       .gradient = ToSparseGradient},
      {.name = "DenseToCSRSparseMatrix",
       .summary = "Gives sparse matrices of elements of dense ones.",
       .infer_shapes = FromDenseShape,
       .gradient = FromDenseGradient},
      {.name = "CSRSparseMatrixToDense",
       .summary = "Gives sparse matrices as dense ones.",
       .infer_shapes = OneMatrix,
       .gradient = ToDenseGradient},
      {.name = "CSRSparseMatrixComponents",
       .summary = "Gives the ends of the rows, the columns and the values of one of some sparse matrices.",
       .infer_shapes = ComponentsShape,
       .gradient = NotDifferentiable},
      {.name = "SparseMatrixNNZ",
       .summary = "Gives how many elements sparse matrices have.",
       .infer_shapes = OneMatrix,
       .gradient = NotDifferentiable},
      {.name = "SparseMatrixTranspose",
       .summary = "Gives sparse matrices transposed.",
       .infer_shapes = TransposeShape,
       .gradient = TransposeGradient},
      {.name = "SparseMatrixMatMul",
       .summary = "Gives the products of sparse matrices and dense ones.",
       .infer_shapes = DenseProductShape,
       .gradient = GradientMissing},
      {.name = "SparseMatrixSparseMatMul",
       .summary = "Gives the products of sparse matrices.",
       .infer_shapes = SparseProductShape,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
