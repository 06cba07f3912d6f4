// Decompositions of matrices, and linear equations.
#include <algorithm>
#include <string>
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

Output Product(GradientContext& g, Output a, Output b, bool adjoint_a = false, bool adjoint_b = false) {
  return g.Add("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

Output Transpose(GradientContext& g, Output matrices, int rank) {
  std::vector<int32_t> axes;
  for (int i = 0; i < rank - 2; ++i) axes.push_back(i);
  axes.insert(axes.end(), {rank - 1, rank - 2});
  return g.Add("Transpose", {matrices, g.Integers(axes)});
}

// The elements on and below the main diagonal, or on and above it.
Output TriangleOf(GradientContext& g, Output matrices, bool lower) {
  const Output all = g.Constant(DType::kInt64, -1), none = g.Constant(DType::kInt64, 0);
  return g.Add("MatrixBandPart", {matrices, lower ? all : none, lower ? none : all});
}

// ---- Qr ----

Status QrShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 2));
  if (!input.has_rank()) return OkStatus();
  const int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
  const bool are_known = rows != kUnknown && columns != kUnknown;
  const int64_t least = are_known ? std::min(rows, columns) : kUnknown;
  const int64_t inner = s.attr<bool>("full_matrices") ? rows : least;
  std::vector<int64_t> dims = DimsOf(input);
  dims.back() = inner;
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, dims));
  dims[dims.size() - 2] = inner;
  dims.back() = columns;
  return SetOutputDims(s, 1, dims);
}

// x inv(r)^T of upper triangular matrices r.
Output DivideByTransposed(GradientContext& g, Output x, Output r, int rank) {
  const Output quotient = g.Add("MatrixTriangularSolve", {r, Transpose(g, x, rank)}, {{"lower", false}});
  return Transpose(g, quotient, rank);
}

// Of matrices with at least as many rows as columns. The formulas are those of Roberts and Roberts, "QR and
// LQ Decomposition Matrix Backpropagation Algorithms" (2020), arXiv:2009.10071.
Output TallQrGradient(GradientContext& g, Output q, Output r, Output dq, Output dr, int rank) {
  const Output qdq = Product(g, q, dq, true), rdr = Product(g, r, dr, false, true);
  const Output antisymmetric =
      Add(g, Sub(g, qdq, Transpose(g, qdq, rank)), Sub(g, rdr, Transpose(g, rdr, rank)));
  const Output lower = DivideByTransposed(g, TriangleOf(g, antisymmetric, true), r, rank);
  const Output outside = DivideByTransposed(g, Sub(g, dq, Product(g, q, qdq)), r, rank);
  return Add(g, Product(g, q, Add(g, dr, lower)), outside);
}

// Columns [begin, begin + count) of matrices; to the end for a count of -1.
Output Columns(GradientContext& g, Output matrices, int rank, int64_t begin, int64_t count) {
  std::vector<int32_t> begins(rank, 0), sizes(rank, -1);
  begins.back() = static_cast<int32_t>(begin);
  sizes.back() = static_cast<int32_t>(count);
  return g.Add("Slice", {matrices, g.Integers(begins), g.Integers(sizes)});
}

// What TensorFlow refuses is refused.
Status QrGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output q = g.output(0), r = g.output(1);
  const int rank = r.shape().rank();
  const int64_t rows = r.shape().has_rank() ? r.shape().dim(rank - 2) : kUnknown;
  const int64_t columns = r.shape().has_rank() ? r.shape().dim(rank - 1) : kUnknown;
  if (rows == kUnknown || columns == kUnknown) {
    return absl::UnimplementedError(
        StrCat("the gradient needs matrices whose shape is known when the graph is built; r is ",
               r.shape().ToString()));
  }
  const bool is_q_square = q.shape().dim(rank - 2) == q.shape().dim(rank - 1);
  if (rows > columns && is_q_square) {
    return absl::UnimplementedError(StrCat(
        "there is no gradient of full_matrices with more rows than columns; r is ", r.shape().ToString()));
  }
  const std::vector<Output> grads = GradsOrZeros(g);
  if (rows >= columns) {
    g.set_input_grad(0, TallQrGradient(g, q, r, grads[0], grads[1], rank));
    return OkStatus();
  }
  // Of [x, y] = q [u, v] with square x and u.
  const Output y = Columns(g, g.input(0), rank, rows, -1), dv = Columns(g, grads[1], rank, rows, -1);
  const Output u = Columns(g, r, rank, 0, rows), du = Columns(g, grads[1], rank, 0, rows);
  const Output dq = Add(g, grads[0], Product(g, y, dv, false, true));
  const Output dx = TallQrGradient(g, q, u, dq, du, rank);
  const Output axis =
      g.graph().AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(rank - 1)}, {"dtype", DType::kInt32}},
                      "", g.node().source());
  g.set_input_grad(0, g.Add("ConcatV2", {std::vector<Output>{dx, Product(g, q, dv)}, axis}));
  return OkStatus();
}

// ---- MatrixTriangularSolve ----

Status TriangularSolveShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape matrix, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs, s.WithRankAtLeast(1, 2));
  if (!matrix.has_rank() || !rhs.has_rank()) return OkStatus();
  const auto rows = s.MergeDims(matrix.dim(matrix.rank() - 2), matrix.dim(matrix.rank() - 1));
  const auto fits = rows.ok() ? s.MergeDims(*rows, rhs.dim(rhs.rank() - 2)) : rows;
  if (!fits.ok()) {
    return InvalidArgumentError(StrCat("matrix must be square and rhs have as many rows: matrix is ",
                                       matrix.ToString(), ", rhs is ", rhs.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape matrix_batch, BatchOf(matrix));
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs_batch, BatchOf(rhs));
  const auto batch = ShapeInference::Broadcast(matrix_batch, rhs_batch);
  if (!batch.ok()) {
    return InvalidArgumentError(
        StrCat("batch dimensions differ: matrix is ", matrix.ToString(), ", rhs is ", rhs.ToString()));
  }
  if (!batch->has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(*batch);
  dims.insert(dims.end(), {*fits, rhs.dim(rhs.rank() - 1)});
  return SetOutputDims(s, 0, dims);
}

// Of A x = b: db solves A^T db = dx, and dA = -db x^T.
Status TriangularSolveGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const bool lower = g.attr<bool>("lower"), adjoint = g.attr<bool>("adjoint");
  const Output x = g.output(0);
  const Output db =
      g.Add("MatrixTriangularSolve", {g.input(0), g.grad(0)}, {{"lower", lower}, {"adjoint", !adjoint}});
  const Output da = Neg(g, adjoint ? Product(g, x, db, false, true) : Product(g, db, x, false, true));
  g.set_input_grad(0, SumRepeatedBatches(g, TriangleOf(g, da, lower), 0));
  g.set_input_grad(1, SumRepeatedBatches(g, db, 1));
  return OkStatus();
}

// ---- BandedTriangularSolve ----

Status BandedTriangularSolveShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape matrix, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs, s.WithRankAtLeast(1, 2));
  if (!matrix.has_rank() || !rhs.has_rank()) return OkStatus();
  const int64_t bands = matrix.dim(matrix.rank() - 2), columns = matrix.dim(matrix.rank() - 1);
  if (bands == 0) return InvalidArgumentError("Number of bands must be positive, but is 0");
  if (bands > columns && columns != kUnknown) {
    return InvalidArgumentError(
        StrCat("Number of bands ", bands, " cannot exceed the size of the matrix ", columns));
  }
  const auto rows = s.MergeDims(columns, rhs.dim(rhs.rank() - 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape matrix_batch, BatchOf(matrix));
  WEIR_ASSIGN_OR_RETURN(const PartialShape rhs_batch, BatchOf(rhs));
  const auto batch = ShapeInference::Broadcast(matrix_batch, rhs_batch);
  if (!rows.ok() || !batch.ok()) {
    return InvalidArgumentError(StrCat("rhs must have as many rows as matrix has columns, and a batch that ",
                                       "fits: matrix is ", matrix.ToString(), ", rhs is ", rhs.ToString()));
  }
  if (!batch->has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(*batch);
  dims.insert(dims.end(), {*rows, rhs.dim(rhs.rank() - 1)});
  return SetOutputDims(s, 0, dims);
}

// The diagonals that a lower or an upper triangle of the node's input 0 has, as MatrixDiagPartV3 asks for
// them.
Output BandsOf(GradientContext& g, bool lower) {
  const PartialShape& shape = g.input(0).shape();
  const int64_t bands = shape.has_rank() ? shape.dim(shape.rank() - 2) : kUnknown;
  if (bands != kUnknown) {
    const auto most = static_cast<int32_t>(bands - 1);
    return g.Integers(lower ? std::vector<int32_t>{-most, 0} : std::vector<int32_t>{0, most});
  }
  const Output size =
      g.Add("GatherV2", {g.Add("Shape", {g.input(0)}), Sub(g, g.Add("Rank", {g.input(0)}), g.Integers({2})),
                         g.Constant(DType::kInt32, 0)});
  const Output most = Sub(g, size, g.Integers({1}));
  return Mul(g, most, g.Integers(lower ? std::vector<int32_t>{-1, 0} : std::vector<int32_t>{0, 1}));
}

// As of MatrixTriangularSolve, whose matrices have zeros outside of the diagonals.
Status BandedTriangularSolveGradient(GradientContext& g) {
  const bool lower = g.attr<bool>("lower"), adjoint = g.attr<bool>("adjoint");
  const Output x = g.output(0);
  const Output db =
      g.Add("BandedTriangularSolve", {g.input(0), g.grad(0)}, {{"lower", lower}, {"adjoint", !adjoint}});
  const Output whole = Neg(g, adjoint ? Product(g, x, db, false, true) : Product(g, db, x, false, true));
  Output da = g.Add("MatrixDiagPartV3", {whole, BandsOf(g, lower), Zero(g, x)},
                    {{"align", std::string("LEFT_RIGHT")}});
  // Of one diagonal it gives vectors.
  const PartialShape& shape = g.input(0).shape();
  const int64_t bands = shape.has_rank() ? shape.dim(shape.rank() - 2) : kUnknown;
  if (bands == 1) {
    da = g.Add("ExpandDims", {da, g.Constant(DType::kInt32, -2)});
  } else if (bands == kUnknown) {
    const auto part = [&](Output of, int begin, int end, int64_t end_mask) {
      return g.Add("StridedSlice",
                   {g.Add("Shape", {of}), g.Integers({begin}), g.Integers({end}), g.Integers({1})},
                   {{"end_mask", end_mask}});
    };
    const std::vector<Output> dims = {part(x, 0, -2, 0), part(g.input(0), -2, 0, 1)};
    da = Reshape(g, da, g.Add("ConcatV2", {dims, g.Constant(DType::kInt32, 0)}));
  }
  g.set_input_grad(0, SumRepeatedBatches(g, da, 0));
  g.set_input_grad(1, SumRepeatedBatches(g, db, 1));
  return OkStatus();
}

// ---- MatrixSquareRoot ----

// The derivative of a function of A in the direction E is the upper right block of that function of
// [A E; 0 A] (Higham, "Functions of Matrices", section 3.2), and the gradient is that of A^T in the direction
// of what flows in. So no equations as large as two matrices multiplied out are solved.
Status SquareRootGradient(GradientContext& g) {
  const auto transposed = [&](Output x) {
    return g.Add("Einsum", {std::vector<Output>{x}}, {{"equation", std::string("...ij->...ji")}});
  };
  const auto joined = [&](Output a, Output b, int axis) {
    return g.Add("ConcatV2", {std::vector<Output>{a, b}, g.Constant(DType::kInt32, axis)});
  };
  const auto half = [&](Output x, int axis, int which) {
    Node* const node = g.graph().AddNode("Split", {g.Constant(DType::kInt32, axis), x},
                                         {{"num_split", int64_t{2}}}, "", g.node().source());
    return node == nullptr ? Output() : node->output(which);
  };
  const Output a = transposed(g.input(0));
  const Output above = joined(a, g.grad(0), -1), below = joined(ZerosLike(g, a), a, -1);
  const Output root = g.Add("MatrixSquareRoot", {joined(above, below, -2)});
  g.set_input_grad(0, half(half(root, -2, 0), -1, 1));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> LinearAlgebraOps() {
  return {
      {.name = "Qr",
       .summary = "Gives matrices as products of an orthogonal matrix q and an upper triangular one r.",
       .infer_shapes = QrShape,
       .gradient = QrGradient},
      {.name = "MatrixTriangularSolve",
       .summary = "Solves matrix * output = rhs for triangular matrices, whose batches broadcast.",
       .infer_shapes = TriangularSolveShape,
       .gradient = TriangularSolveGradient},
      {.name = "BandedTriangularSolve",
       .summary =
           "Solves matrix * output = rhs for triangular matrices of which some diagonals are given, the main "
           "one first of lower triangles, last of upper ones.",
       .infer_shapes = BandedTriangularSolveShape,
       .gradient = BandedTriangularSolveGradient},
      {.name = "MatrixSquareRoot",
       .summary = "Gives the matrices whose squares the input has, with eigenvalues of positive real part.",
       .infer_shapes = SquareShape,
       .gradient = SquareRootGradient},
      {.name = "MatrixLogarithm",
       .summary = "Gives the principal logarithms of square matrices.",
       .infer_shapes = SquareShape,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
