// Sparse tensors combined with sparse and dense ones, and reduced.
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

using namespace formulas;  // NOLINT: the vocabulary of this file

// Indices, values and shape from input `first` on. The number of elements.
absl::StatusOr<int64_t> CheckSparse(ShapeInference& s, int first) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(first, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRank(first + 1, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRank(first + 2, 1));
  WEIR_RETURN_IF_ERROR(s.MergeDims(indices.dim(1), shape.dim(0)).status());
  return s.MergeDims(indices.dim(0), values.dim(0));
}

// ---- Shapes ----

Status ToDenseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 1));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status DenseAddShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparse(s, 0).status());
  s.set_output(0, s.input(3));
  return OkStatus();
}

// Of the sum nothing is known but its rank.
Status MergedSparseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparse(s, 0).status());
  WEIR_RETURN_IF_ERROR(CheckSparse(s, 3).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRank(2, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(5, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t rank, s.MergeDims(a.dim(0), b.dim(0)));
  s.set_output(0, PartialShape({kUnknown, rank}));
  s.set_output(1, PartialShape({kUnknown}));
  if (s.num_outputs() == 3) s.set_output(2, PartialShape({rank}));
  return OkStatus();
}

Status AddGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  for (int i = 1; i < 4; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(i, 2));
    if (i < 3) s.set_output(i - 1, PartialShape({indices.dim(0)}));
  }
  return OkStatus();
}

Status MatMulShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 2).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(3, 2));
  const auto a = s.input_integers(2);
  const bool is_known = a && a->size() == 2;
  const bool adjoint_a = s.attr<bool>("adjoint_a"), adjoint_b = s.attr<bool>("adjoint_b");
  const int64_t rows = is_known ? (*a)[adjoint_a ? 1 : 0] : kUnknown;
  if (is_known) {
    const int64_t inner = (*a)[adjoint_a ? 0 : 1];
    if (rows < 0 || inner < 0 || !s.MergeDims(inner, b.dim(adjoint_b ? 1 : 0)).ok()) {
      return InvalidArgumentError(
          StrCat("inner dimensions differ: a is [", (*a)[0], ",", (*a)[1], "], b is ", b.ToString()));
    }
  }
  return SetOutputDims(s, 0, {rows, b.dim(adjoint_b ? 0 : 1)});
}

Status CwiseShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t count, CheckSparse(s, 0));
  s.set_output(0, PartialShape({count}));
  return OkStatus();
}

// The dense result's, where shape and axes are constants.
Status ReduceShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparse(s, 0).status());
  const auto dims = s.input_integers(2);
  const auto axes = s.input_integers(3);
  if (!dims || !axes) return OkStatus();
  const auto rank = static_cast<int>(dims->size());
  std::vector<bool> is_reduced(rank);
  for (const int64_t axis : *axes) {
    WEIR_ASSIGN_OR_RETURN(const int at, NormalizeAxis(axis, rank, "reduction_axes"));
    is_reduced[at] = true;
  }
  std::vector<int64_t> kept;
  for (int i = 0; i < rank; ++i) {
    if ((*dims)[i] < 0) return InvalidArgumentError(StrCat("input_shape has a dimension ", (*dims)[i]));
    if (!is_reduced[i]) kept.push_back((*dims)[i]);
    if (is_reduced[i] && s.attr<bool>("keep_dims")) kept.push_back(1);
  }
  return SetOutputDims(s, 0, kept);
}

Status ReduceSparseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparse(s, 0).status());
  s.set_output(0, PartialShape({kUnknown, kUnknown}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, PartialShape({kUnknown}));
  return OkStatus();
}

// ---- Gradients ----

Output Long(GradientContext& g, Output integers) { return Cast(g, integers, DType::kInt64); }

// One value may stand for all elements, and indices may be a vector of positions.
Status ToDenseGradient(GradientContext& g) {
  const Output rank = Reshape(g, g.Add("Size", {g.input(1)}), g.Integers({1}));
  const Output matrix_shape =
      g.Add("ConcatV2", {std::vector<Output>{g.Integers({-1}), rank}, g.Constant(DType::kInt32, 0)});
  const Output of_values = g.Add("GatherNd", {g.grad(0), Reshape(g, g.input(0), matrix_shape)});
  const Output flat = Reshape(g, g.grad(0), g.Integers({-1}));
  g.set_input_grad(3, Sub(g, Sum(g, flat, g.Integers({0})), Sum(g, of_values, g.Integers({0}))));

  const PartialShape& values = g.input(2).shape();
  if (values.has_rank()) {
    g.set_input_grad(2, values.rank() == 0 ? Sum(g, of_values, g.Integers({0})) : of_values);
    return OkStatus();
  }
  const Output shape = g.Add("Shape", {g.input(2)});
  Node* const repeated = g.graph().AddNode("BroadcastGradientArgs", {shape, g.Add("Shape", {of_values})}, {},
                                           "", g.node().source());
  if (repeated == nullptr) return OkStatus();
  g.set_input_grad(2, Reshape(g, Sum(g, of_values, repeated->output(0)), shape));
  return OkStatus();
}

Status DenseAddGradient(GradientContext& g) {
  g.set_input_grad(1, g.Add("GatherNd", {g.grad(0), g.input(0)}));
  g.set_input_grad(3, g.grad(0));
  return OkStatus();
}

Status AddGradient(GradientContext& g) {
  if (!g.grad(1)) return OkStatus();
  Node* const grads = g.graph().AddNode("SparseAddGrad", {g.grad(1), g.input(0), g.input(3), g.output(0)}, {},
                                        "", g.node().source());
  if (grads == nullptr) return OkStatus();
  g.set_input_grad(1, grads->output(0));
  g.set_input_grad(4, grads->output(1));
  return OkStatus();
}

Output Column(GradientContext& g, Output indices, int column) {
  return g.Add("StridedSlice",
               {indices, g.Integers({0, column}), g.Integers({0, column + 1}), g.Integers({1, 1})},
               {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
}

// A is a sum of single elements: the gradient of each is the product of a row of the gradient and a row of b.
Status MatMulGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const bool adjoint_a = g.attr<bool>("adjoint_a"), adjoint_b = g.attr<bool>("adjoint_b");
  const Output indices = g.input(0), b = g.input(3), grad = g.grad(0);
  const auto transpose = [&](Output x) { return g.Add("Transpose", {x, g.Integers({1, 0})}); };
  Output b_grad =
      g.Add("SparseTensorDenseMatMul", {indices, g.input(1), g.input(2), grad}, {{"adjoint_a", !adjoint_a}});
  if (adjoint_b) b_grad = transpose(b_grad);
  g.set_input_grad(3, b_grad);

  const Output rows = Column(g, indices, 0), columns = Column(g, indices, 1);
  const Output zero = g.Constant(DType::kInt32, 0);
  const Output of_grad = g.Add("GatherV2", {grad, adjoint_a ? columns : rows, zero});
  const Output of_b = g.Add("GatherV2", {adjoint_b ? transpose(b) : b, adjoint_a ? rows : columns, zero});
  g.set_input_grad(1, Sum(g, Mul(g, of_grad, of_b), g.Integers({1})));
  return OkStatus();
}

// The shape of the dense tensor with the sparse one's rank: 1 in front.
Output AugmentedShape(GradientContext& g) {
  const Output dense_shape = Long(g, g.Add("Shape", {g.input(3)}));
  const Output missing = Sub(g, g.Add("Size", {g.input(2)}), g.Add("Size", {dense_shape}));
  const Output ones = g.Add("Fill", {Reshape(g, missing, g.Integers({1})), g.Constant(DType::kInt64, 1)});
  return g.Add("ConcatV2", {std::vector<Output>{ones, dense_shape}, g.Constant(DType::kInt32, 0)});
}

// Each element met the dense one at its own index, divided by how often that dimension was repeated.
template <bool is_product>
Status CwiseGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output shape = AugmentedShape(g);
  const Output indices = g.Add("FloorDiv", {g.input(0), g.Add("FloorDiv", {g.input(2), shape})});
  const Output augmented = Reshape(g, g.input(3), shape);
  const Output dense = g.Add("GatherNd", {augmented, indices});
  Output of_dense;
  if (is_product) {
    g.set_input_grad(1, Mul(g, g.grad(0), dense));
    of_dense = Mul(g, g.grad(0), g.input(1));
  } else {
    g.set_input_grad(1, Div(g, g.grad(0), dense));
    of_dense = Mul(g, g.grad(0), Div(g, Neg(g, g.input(1)), Mul(g, dense, dense)));
  }
  const Output sums = g.Add("SparseTensorDenseAdd", {indices, of_dense, shape, ZerosLike(g, augmented)});
  g.set_input_grad(3, ReshapeLike(g, sums, g.input(3)));
  return OkStatus();
}

// The gradient in the result's shape with reduced axes kept, looked up where each element went.
Status ReduceSumGradient(GradientContext& g) {
  const Output shape = g.input(2);
  const Output int_shape = Cast(g, shape, DType::kInt32);
  const Output rank = g.Add("Size", {shape});
  const Output axes = g.Add("FloorMod", {Add(g, Reshape(g, g.input(3), g.Integers({-1})), rank), rank});
  const Output all = g.Add("Range", {g.Constant(DType::kInt32, 0), rank, g.Constant(DType::kInt32, 1)});
  // 1 in the place of reduced dimensions; an axis may be listed twice.
  const Output ones = g.Add("Fill", {g.Add("Shape", {axes}), g.Constant(DType::kInt32, 1)});
  const Output kept =
      g.Add("DynamicStitch", {std::vector<Output>{all, axes}, std::vector<Output>{int_shape, ones}});
  const Output reshaped = Reshape(g, g.grad(0), kept);
  const Output scale = g.Add("FloorDiv", {shape, Long(g, kept)});
  g.set_input_grad(1, g.Add("GatherNd", {reshaped, g.Add("FloorDiv", {g.input(0), scale})}));
  return OkStatus();
}

// dx = (grad - sum(grad * y over the row)) * y
Status SoftmaxGradient(GradientContext& g) {
  const Output indices = g.input(0), shape = g.input(2), y = g.output(0);
  const Output products = Mul(g, y, g.grad(0));
  const Output sums =
      g.Add("SparseReduceSum", {indices, products, shape, g.Integers({-1})}, {{"keep_dims", true}});
  const Output centered = g.Add("SparseDenseCwiseAdd", {indices, g.grad(0), shape, Neg(g, sums)});
  g.set_input_grad(1, Mul(g, centered, y));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SparseSumsOps() {
  std::vector<OpDef> ops;
  const auto add = [&](std::string name, std::string summary, ShapeFunction shape,
                       GradientFunction gradient) {
    ops.push_back({.name = std::move(name),
                   .summary = std::move(summary),
                   .infer_shapes = shape,
                   .gradient = gradient});
  };
  add("SparseToDense", "Writes the elements of a sparse tensor into a tensor of default_value.", ToDenseShape,
      ToDenseGradient);
  add("SparseTensorDenseAdd", "Adds a sparse tensor to a dense one of its shape.", DenseAddShape,
      DenseAddGradient);
  add("SparseAdd",
      "Adds two sparse tensors; sums of two elements of a magnitude below `thresh` are left out.",
      MergedSparseShape, AddGradient);
  add("SparseAddGrad", "Gives the gradients of SparseAdd's values.", AddGradShape, NotDifferentiable);
  add("SparseSparseMaximum", "Gives the larger elements of two sparse tensors; those missing count as 0.",
      MergedSparseShape, GradientMissing);
  add("SparseSparseMinimum", "Gives the smaller elements of two sparse tensors; those missing count as 0.",
      MergedSparseShape, GradientMissing);
  add("SparseTensorDenseMatMul", "Multiplies a sparse matrix by a dense one.", MatMulShape, MatMulGradient);
  add("SparseDenseCwiseAdd", "Adds to the elements of a sparse tensor those of a dense one, broadcast to it.",
      CwiseShape, GradientMissing);
  add("SparseDenseCwiseMul",
      "Multiplies the elements of a sparse tensor by those of a dense one, broadcast to it.", CwiseShape,
      CwiseGradient<true>);
  add("SparseDenseCwiseDiv",
      "Divides the elements of a sparse tensor by those of a dense one, broadcast to it.", CwiseShape,
      CwiseGradient<false>);
  add("SparseReduceSum", "Adds up the elements of a sparse tensor along axes; the result is dense.",
      ReduceShape, ReduceSumGradient);
  add("SparseReduceSumSparse", "Like SparseReduceSum, with a sparse result.", ReduceSparseShape,
      GradientMissing);
  add("SparseReduceMax",
      "Gives the largest element of a sparse tensor along axes, 0 where there is none; the result is dense.",
      ReduceShape, GradientMissing);
  add("SparseReduceMaxSparse", "Like SparseReduceMax, with a sparse result.", ReduceSparseShape,
      GradientMissing);
  add("SparseSoftmax", "Gives the softmax of the elements that are there, along the last axis.", CwiseShape,
      SoftmaxGradient);
  return ops;
}

}  // namespace weir
