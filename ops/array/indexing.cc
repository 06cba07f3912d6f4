// Ops that look up and choose. One op, one function: schema, shapes, gradient.
#include <optional>
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

// ---- Looking up ----

Status GatherShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> raw_axis, ScalarInput(s, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape params, s.WithRankAtLeast(0, 1));
  const PartialShape& indices = s.input(1);
  int64_t batch_dims = s.attr<int64_t>("batch_dims");
  if (!params.has_rank() || !indices.has_rank()) return OkStatus();
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims > params.rank()) {
    return InvalidArgumentError(StrCat("batch_dims ", s.attr<int64_t>("batch_dims"),
                                       " does not fit: params is ", params.ToString(), ", indices is ",
                                       indices.ToString()));
  }
  const int result_rank = params.rank() - 1 + indices.rank() - static_cast<int>(batch_dims);
  if (!raw_axis) {
    s.set_output(0, PartialShape::OfRank(result_rank));
    return OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*raw_axis, params.rank(), "axis"));
  if (axis < batch_dims) {
    return InvalidArgumentError(StrCat("axis ", axis, " is one of the ", batch_dims, " batch dimensions"));
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < batch_dims; ++i) {
    WEIR_ASSIGN_OR_RETURN(const int64_t dim, s.MergeDims(params.dim(i), indices.dim(i)));
    dims.push_back(dim);
  }
  for (int i = static_cast<int>(batch_dims); i < axis; ++i) dims.push_back(params.dim(i));
  for (int i = static_cast<int>(batch_dims); i < indices.rank(); ++i) dims.push_back(indices.dim(i));
  for (int i = axis + 1; i < params.rank(); ++i) dims.push_back(params.dim(i));
  return SetOutputDims(s, 0, dims);
}

// The product of elements [begin, end) of a shape; to its last one without an end.
Output ProductOf(GradientContext& g, Output shape, Output begin, Output end) {
  const Output part = end ? g.Add("StridedSlice", {shape, begin, end, g.Integers({1})})
                          : g.Add("StridedSlice", {shape, begin, begin, g.Integers({1})}, {{"end_mask", 1}});
  return g.Add("Prod", {part, g.Constant(DType::kInt32, 0)});
}

Output ShapeVector(GradientContext& g, const std::vector<Output>& dims) { return g.Add("Pack", {dims}); }

// Counted from the front: an axis of a tensor that a step may know better than the graph.
Output FromFront(GradientContext& g, Output axis, Output tensor) {
  return g.Add("FloorMod", {Cast(g, axis, DType::kInt32), g.Add("Rank", {tensor})});
}

// With the params as [batch, outer, limit, inner] and the indices as [batch, count] the gradient is
// [batch, outer, count, inner]. Its rows go to the front, are added up by batch and index, and go back.
Status GatherGradient(GradientContext& g) {
  const int64_t batch_dims = g.attr<int64_t>("batch_dims");
  Output indices = g.input(1);
  if (indices.dtype() == DType::kInt16) indices = Cast(g, indices, DType::kInt32);
  const bool is_first_axis =
      g.input(2).node->op_name() == "Const" && KnownAxis(g.input(2), g.input(0)).value_or(-1) == 0;
  if (is_first_axis && batch_dims == 0) {
    g.set_input_grad(0, RowsLookedUp(g, indices, ShapeOf(g, g.input(0))));
    return OkStatus();
  }
  const Output shape = ShapeOf(g, g.input(0)), indices_shape = ShapeOf(g, g.input(1));
  const auto as_vector = [&](Output scalar) { return Reshape(g, scalar, g.Integers({1})); };
  const Output zero = g.Integers({0}), one = g.Integers({1});
  const Output axis = as_vector(FromFront(g, g.input(2), g.input(0)));
  const Output behind_axis = Add(g, axis, one);
  Output batch_rank = g.Integers({static_cast<int32_t>(batch_dims)});
  if (batch_dims < 0) batch_rank = Add(g, batch_rank, g.Add("Rank", {g.input(1)}));

  const Output batch = ProductOf(g, shape, zero, batch_rank), outer = ProductOf(g, shape, batch_rank, axis);
  const Output limit = ProductOf(g, shape, axis, behind_axis), inner = ProductOf(g, shape, behind_axis, {});
  const Output count = ProductOf(g, indices_shape, batch_rank, {});

  const Output rows = g.Add("Transpose", {Reshape(g, g.grad(0), ShapeVector(g, {batch, outer, count, inner})),
                                          g.Integers({0, 2, 1, 3})});
  const Output first_of_batch =
      Mul(g, g.Add("Range", {g.Constant(DType::kInt32, 0), batch, g.Constant(DType::kInt32, 1)}), limit);
  const Output ids = Add(g, Reshape(g, indices, ShapeVector(g, {batch, count})),
                         Cast(g, Reshape(g, first_of_batch, g.Integers({-1, 1})), indices.dtype()));
  const Output sums = g.Add("UnsortedSegmentSum", {rows, ids, Mul(g, batch, limit)});
  const Output in_order = g.Add("Transpose", {Reshape(g, sums, ShapeVector(g, {batch, limit, outer, inner})),
                                              g.Integers({0, 2, 1, 3})});
  g.set_input_grad(0, ReshapeLike(g, in_order, g.input(0)));
  return OkStatus();
}

// ---- Choosing ----

Status SelectShape(ShapeInference& s) {
  const PartialShape& condition = s.input(0);
  WEIR_ASSIGN_OR_RETURN(const PartialShape chosen, MergeInputs(s, 1, 3));
  s.set_output(0, chosen);
  if (!condition.has_rank() || condition.rank() == 0 || !chosen.has_rank()) return OkStatus();
  const bool is_per_row = condition.rank() == 1 && chosen.rank() > 1;
  const bool fits =
      is_per_row ? s.MergeDims(condition.dim(0), chosen.dim(0)).ok() : condition.IsCompatibleWith(chosen);
  if (!fits) {
    return InvalidArgumentError(
        StrCat("condition must be a scalar, one element per row, or of t's shape: condition is ",
               condition.ToString(), ", t is ", chosen.ToString()));
  }
  return OkStatus();
}

}  // namespace

std::vector<OpDef> IndexingOps() {
  return {

      // ---- Looking up ----
      {.name = "GatherV2",
       .summary = "Gives the slices of params along an axis that indices list.",
       .infer_shapes = GatherShape,
       .gradient = GatherGradient},
      {.name = "OneHot",
       .summary = "Gives on_value at the index and off_value elsewhere along a new axis of length depth.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> depth, ScalarInput(s, 1));
         if (depth && *depth < 0)
           return InvalidArgumentError(StrCat("depth is ", *depth, ", must not be negative"));
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
         if (!s.input(0).has_rank()) return OkStatus();
         WEIR_ASSIGN_OR_RETURN(const int axis,
                               NormalizeAxis(s.attr<int64_t>("axis"), s.input(0).rank() + 1, "axis"));
         std::vector<int64_t> dims = DimsOf(s.input(0));
         dims.insert(dims.begin() + axis, depth.value_or(kUnknown));
         return SetOutputDims(s, 0, dims);
       },
       .gradient = NotDifferentiable},

      // ---- Choosing ----
      {.name = "Select",
       .summary = "Gives t where condition is true and e elsewhere; a vector condition chooses rows.",
       .infer_shapes = SelectShape,
       .gradient = [](GradientContext& g) -> Status {
         const Output zeros = ZerosLike(g, g.input(1));
         g.set_input_grad(1, g.Add("Select", {g.input(0), g.grad(0), zeros}));
         g.set_input_grad(2, g.Add("Select", {g.input(0), zeros, g.grad(0)}));
         return OkStatus();
       }},
      {.name = "SelectV2",
       .summary = "Gives t where condition is true and e elsewhere; all three are broadcast together.",
       .is_elementwise = true,
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape chosen, ShapeInference::Broadcast(s.input(1), s.input(2)));
         WEIR_ASSIGN_OR_RETURN(PartialShape all, ShapeInference::Broadcast(s.input(0), chosen));
         s.set_output(0, std::move(all));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         const std::vector<Output> inputs = {g.input(0), g.input(1), g.input(2)};
         const Output zero = g.Constant(g.grad(0).dtype(), 0);
         const Output t = Select(g, g.input(0), g.grad(0), zero);
         const Output e = Select(g, g.input(0), zero, g.grad(0));
         g.set_input_grad(1, UndoBroadcast(g, t, inputs, 1));
         g.set_input_grad(2, UndoBroadcast(g, e, inputs, 2));
         return OkStatus();
       }},
      {.name = "Where",
       .summary = "Gives the coordinates of the elements that are not zero or false, one row each.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         s.set_output(0, PartialShape({kUnknown, s.input(0).has_rank() ? s.input(0).rank() : kUnknown}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
