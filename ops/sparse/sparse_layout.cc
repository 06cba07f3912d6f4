// Ops that move the elements of sparse tensors. A sparse tensor is three tensors: indices [count, rank],
// values [count], and its shape [rank].
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

// The number of elements and the rank of the sparse tensor whose indices, values and shape are these inputs.
struct SparseSizes {
  int64_t count = kUnknown, rank = kUnknown;
};

absl::StatusOr<SparseSizes> SizesOf(ShapeInference& s, int indices, int values, int shape) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape at, s.WithRank(indices, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape elements, s.WithRank(values, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape dims, s.WithRank(shape, 1));
  SparseSizes sizes;
  WEIR_ASSIGN_OR_RETURN(sizes.count, s.MergeDims(at.dim(0), elements.dim(0)));
  WEIR_ASSIGN_OR_RETURN(sizes.rank, s.MergeDims(at.dim(1), dims.dim(0)));
  return sizes;
}

void SetSparseOutput(ShapeInference& s, int first, int step, SparseSizes sizes) {
  s.set_output(first, PartialShape({sizes.count, sizes.rank}));
  s.set_output(first + step, PartialShape({sizes.count}));
  s.set_output(first + 2 * step, PartialShape({sizes.rank}));
}

// ---- Shapes ----

Status ReorderShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const SparseSizes sizes, SizesOf(s, 0, 1, 2));
  s.set_output(0, PartialShape({sizes.count, sizes.rank}));
  s.set_output(1, PartialShape({sizes.count}));
  return OkStatus();
}

Status ReshapeShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(0, 2));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape new_shape, s.WithRank(2, 1));
  s.set_output(0, PartialShape({indices.dim(0), new_shape.dim(0)}));
  s.set_output(1, new_shape);
  return OkStatus();
}

Status ConcatShape(ShapeInference& s) {
  const auto count = static_cast<int>(s.attr<int64_t>("N"));
  SparseSizes all = {0, kUnknown};
  for (int i = 0; i < count; ++i) {
    WEIR_ASSIGN_OR_RETURN(const SparseSizes sizes, SizesOf(s, i, count + i, 2 * count + i));
    all.count = AddDims(all.count, sizes.count);
    WEIR_ASSIGN_OR_RETURN(all.rank, s.MergeDims(all.rank, sizes.rank));
  }
  SetSparseOutput(s, 0, 1, all);
  return OkStatus();
}

Status SplitShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_ASSIGN_OR_RETURN(const SparseSizes sizes, SizesOf(s, 1, 2, 3));
  const auto num_split = static_cast<int>(s.attr<int64_t>("num_split"));
  for (int k = 0; k < num_split; ++k) SetSparseOutput(s, k, num_split, {kUnknown, sizes.rank});
  return OkStatus();
}

Status SliceShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(SparseSizes sizes, SizesOf(s, 0, 1, 2));
  for (int i : {3, 4}) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape part, s.WithRank(i, 1));
    WEIR_ASSIGN_OR_RETURN(sizes.rank, s.MergeDims(sizes.rank, part.dim(0)));
  }
  SetSparseOutput(s, 0, 1, {kUnknown, sizes.rank});
  return OkStatus();
}

Status SliceGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(1, 2));
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(3, 2).status());
  s.set_output(0, PartialShape({indices.dim(0)}));
  return OkStatus();
}

Status FillEmptyRowsShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const SparseSizes sizes, SizesOf(s, 0, 1, 2));
  WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  const auto dims = s.input_integers(2);
  const bool has_rows = dims && !dims->empty() && dims->front() >= 0;
  s.set_output(0, PartialShape({kUnknown, sizes.rank}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, PartialShape({has_rows ? dims->front() : kUnknown}));
  s.set_output(3, PartialShape({sizes.count}));
  return OkStatus();
}

Status FillEmptyRowsGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape places, s.WithRank(0, 1));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  s.set_output(0, places);
  s.set_output(1, PartialShape({}));
  return OkStatus();
}

// ---- Gradients: of the values only ----

// Where each element went: its number, reordered like it, and that order inverted.
Status ReorderGradient(GradientContext& g) {
  if (!g.grad(1)) return OkStatus();
  const Output count = g.Add("Size", {g.input(1)});
  const Output numbers = g.Add("Range", {g.Constant(DType::kInt32, 0), count, g.Constant(DType::kInt32, 1)});
  Node* const reordered =
      g.graph().AddNode("SparseReorder", {g.input(0), numbers, g.input(2)}, {}, "", g.node().source());
  if (reordered == nullptr) return OkStatus();
  const Output places = g.Add("InvertPermutation", {reordered->output(1)});
  g.set_input_grad(1, g.Add("GatherV2", {g.grad(1), places, g.Constant(DType::kInt32, 0)}));
  return OkStatus();
}

Status SliceGradient(GradientContext& g) {
  if (!g.grad(1)) return OkStatus();
  g.set_input_grad(1, g.Add("SparseSliceGrad", {g.grad(1), g.input(0), g.input(3), g.output(0)}));
  return OkStatus();
}

Status FillEmptyRowsGradient(GradientContext& g) {
  if (!g.grad(1)) return OkStatus();
  Node* const grads =
      g.graph().AddNode("SparseFillEmptyRowsGrad", {g.output(3), g.grad(1)}, {}, "", g.node().source());
  if (grads == nullptr) return OkStatus();
  g.set_input_grad(1, grads->output(0));
  g.set_input_grad(3, grads->output(1));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SparseLayoutOps() {
  std::vector<OpDef> ops;
  const auto add = [&](std::string name, std::string summary, ShapeFunction shape,
                       GradientFunction gradient) {
    ops.push_back({.name = std::move(name),
                   .summary = std::move(summary),
                   .infer_shapes = shape,
                   .gradient = gradient});
  };
  add("SparseReorder", "Sorts the elements of a sparse tensor by their indices.", ReorderShape,
      ReorderGradient);
  add("SparseReshape", "Gives the indices of a sparse tensor in another shape, of which one size may be -1.",
      ReshapeShape, NotDifferentiable);
  add("SparseConcat", "Joins sparse tensors along an axis.", ConcatShape, NotDifferentiable);
  add("SparseSplit", "Splits a sparse tensor along an axis.", SplitShape, GradientMissing);
  add("SparseSlice", "Gives the part of a sparse tensor that begins at `start` and has `size`.", SliceShape,
      SliceGradient);
  add("SparseSliceGrad", "Gives the gradient of SparseSlice's values.", SliceGradShape, GradientMissing);
  add("SparseFillEmptyRows", "Gives each row of a sparse matrix without elements default_value in column 0.",
      FillEmptyRowsShape, FillEmptyRowsGradient);
  add("SparseFillEmptyRowsGrad", "Gives the gradients of SparseFillEmptyRows's values and default_value.",
      FillEmptyRowsGradShape, GradientMissing);
  return ops;
}

}  // namespace weir
