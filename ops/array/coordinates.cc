// Ops whose indices are coordinates: a row of indices [..., depth] names the slice tensor[row] of the first
// depth dimensions.
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

// The shape of the slices of `tensor` that `indices` name, one per row: indices[:-1] + tensor[depth:].
absl::StatusOr<PartialShape> ShapeOfSlices(ShapeInference& s, const PartialShape& tensor, int indices_input) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRankAtLeast(indices_input, 1));
  if (!tensor.has_rank() || !indices.has_rank()) return PartialShape();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth == kUnknown) return PartialShape();
  if (depth > tensor.rank()) {
    return InvalidArgumentError(StrCat("indices have ", depth, " coordinates for ", tensor.rank(),
                                       " dimensions: indices is ", indices.ToString(), ", indexed is ",
                                       tensor.ToString()));
  }
  std::vector<int64_t> dims = DimsOf(indices);
  dims.pop_back();
  for (int i = static_cast<int>(depth); i < tensor.rank(); ++i) dims.push_back(tensor.dim(i));
  return PartialShape::FromDims(dims);
}

// Checks that updates are slices of `tensor` as input `indices_input` names them.
Status CheckUpdates(ShapeInference& s, const PartialShape& tensor, int indices_input) {
  const PartialShape& updates = s.input(indices_input + 1);
  WEIR_ASSIGN_OR_RETURN(const PartialShape slices, ShapeOfSlices(s, tensor, indices_input));
  if (updates.IsCompatibleWith(slices)) return OkStatus();
  return InvalidArgumentError(StrCat("updates must be ", slices.ToString(), " for indices ",
                                     s.input(indices_input).ToString(), " into ", tensor.ToString(), ", is ",
                                     updates.ToString()));
}

Status GatherNdShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(0, 1).status());
  WEIR_ASSIGN_OR_RETURN(PartialShape slices, ShapeOfSlices(s, s.input(0), 1));
  s.set_output(0, std::move(slices));
  return OkStatus();
}

Status ScatterNdShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 2));
  WEIR_RETURN_IF_ERROR(CheckUpdates(s, shape, 0));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

// The result is like the tensor, input 0.
Status UpdatedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckUpdates(s, s.input(0), 1));
  return UnchangedShape(s);
}

AttrMap PolicyOf(GradientContext& g) {
  return {{"bad_indices_policy", g.attr<std::string>("bad_indices_policy")}};
}

// ScatterNd takes its shape in the dtype of the indices, for which 16 bits are too narrow.
Output WideIndices(GradientContext& g, Output indices) {
  const bool is_wide = indices.dtype() == DType::kInt32 || indices.dtype() == DType::kInt64;
  return is_wide ? indices : Cast(g, indices, DType::kInt32);
}

Output Gather(GradientContext& g, Output from, Output indices) {
  return g.Add("GatherNd", {from, WideIndices(g, indices)}, PolicyOf(g));
}

// Adds up `updates` in the shape of the forward tensor `like`.
Output Scatter(GradientContext& g, Output indices, Output updates, Output like) {
  indices = WideIndices(g, indices);
  Output shape = ShapeOf(g, like);
  if (indices.dtype() != DType::kInt32) shape = Cast(g, shape, indices.dtype());
  return g.Add("ScatterNd", {indices, updates, shape}, PolicyOf(g));
}

Status GatherNdGradient(GradientContext& g) {
  g.set_input_grad(0, Scatter(g, g.input(1), g.grad(0), g.input(0)));
  return OkStatus();
}

Status AddingGradient(GradientContext& g) {
  g.set_input_grad(0, g.grad(0));
  g.set_input_grad(2, Gather(g, g.grad(0), g.input(1)));
  return OkStatus();
}

Status SubtractingGradient(GradientContext& g) {
  g.set_input_grad(0, g.grad(0));
  g.set_input_grad(2, Neg(g, Gather(g, g.grad(0), g.input(1))));
  return OkStatus();
}

Status AssigningGradient(GradientContext& g) {
  const Output zeros = ZerosLike(g, g.input(2));
  g.set_input_grad(0, g.Add("TensorScatterUpdate", {g.grad(0), g.input(1), zeros}, PolicyOf(g)));
  g.set_input_grad(2, Gather(g, g.grad(0), g.input(1)));
  return OkStatus();
}

// All elements that are equal to the result share its gradient.
Status ExtremeGradient(GradientContext& g) {
  const Output tensor = g.input(0), indices = g.input(1), updates = g.input(2), result = g.output(0);
  const DType dtype = tensor.dtype();
  const Output tensor_is_it = Cast(g, g.Add("Equal", {tensor, result}), dtype);
  const Output update_is_it = Cast(g, g.Add("Equal", {updates, Gather(g, result, indices)}), dtype);
  const Output count = Add(g, tensor_is_it, Scatter(g, indices, update_is_it, tensor));
  const Output share = Div(g, g.grad(0), count);
  g.set_input_grad(0, Mul(g, share, tensor_is_it));
  g.set_input_grad(2, Mul(g, Gather(g, share, indices), update_is_it));
  return OkStatus();
}

OpDef Updating(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = UpdatedShape,
          .gradient = gradient};
}

}  // namespace

std::vector<OpDef> CoordinatesOps() {
  return {
      {.name = "GatherNd",
       .summary = "Gives the slices of params at the coordinates in the rows of indices.",
       .infer_shapes = GatherNdShape,
       .gradient = GatherNdGradient},
      {.name = "ScatterNd",
       .summary = "Adds updates at the coordinates in the rows of indices to zeros of the given shape.",
       .infer_shapes = ScatterNdShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(1, Gather(g, g.grad(0), g.input(0)));
         return OkStatus();
       }},
      {.name = "UnravelIndex",
       .summary = "Gives the coordinates, one a row, of elements of a tensor with these dimensions.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape dims, s.WithRank(1, 1));
         const PartialShape& indices = s.input(0);
         if (!indices.has_rank()) return OkStatus();
         if (indices.rank() > 1) {
           return InvalidArgumentError(
               StrCat("indices must be a scalar or a vector, is ", indices.ToString()));
         }
         std::vector<int64_t> shape = {dims.dim(0)};
         if (indices.rank() == 1) shape.push_back(indices.dim(0));
         return SetOutputDims(s, 0, shape);
       },
       .gradient = NotDifferentiable},
      Updating("ScatterNdNonAliasingAdd", "Gives the input with updates added at the coordinates.",
               AddingGradient),
      Updating("TensorScatterUpdate",
               "Gives the tensor with updates in place of the slices at the coordinates; the last of several "
               "stays.",
               AssigningGradient),
      Updating("TensorScatterAdd", "Gives the tensor with updates added at the coordinates.", AddingGradient),
      Updating("TensorScatterSub", "Gives the tensor with updates subtracted at the coordinates.",
               SubtractingGradient),
      Updating("TensorScatterMin",
               "Gives the tensor with the smaller of it and the updates at the coordinates.",
               ExtremeGradient),
      Updating("TensorScatterMax",
               "Gives the tensor with the larger of it and the updates at the coordinates.", ExtremeGradient),
  };
}

}  // namespace weir
