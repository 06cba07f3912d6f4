// Slices of variables: reading some by index, and changing some in place.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"
#include "ops/variable_shapes.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The shape of the variable behind input 0; InvalidArgument unless its dtype is attr `dtype_attr`.
absl::StatusOr<PartialShape> ShapeOfTarget(ShapeInference& s, absl::string_view dtype_attr) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_RETURN_IF_ERROR(CheckDType(s, 0, s.attr<DType>(dtype_attr)));
  return VariableType(s, 0).shape;
}

Status GatherShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape variable, ShapeOfTarget(s, "dtype"));
  const PartialShape& indices = s.input(1);
  if (!variable.has_rank() || !indices.has_rank()) return OkStatus();
  const int64_t batch_dims = s.attr<int64_t>("batch_dims");
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims >= variable.rank()) {
    return InvalidArgumentError(StrCat("batch_dims ", batch_dims, " does not fit: the variable is ",
                                       variable.ToString(), ", indices is ", indices.ToString()));
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < batch_dims; ++i) {
    WEIR_ASSIGN_OR_RETURN(const int64_t dim, s.MergeDims(variable.dim(i), indices.dim(i)));
    dims.push_back(dim);
  }
  for (int i = static_cast<int>(batch_dims); i < indices.rank(); ++i) dims.push_back(indices.dim(i));
  for (int i = static_cast<int>(batch_dims) + 1; i < variable.rank(); ++i) dims.push_back(variable.dim(i));
  return SetOutputDims(s, 0, dims);
}

// Of all slices that coordinates in the last dimension of input 1 choose; unknown rank when not known.
absl::StatusOr<PartialShape> ShapeAtCoordinates(ShapeInference& s, absl::string_view dtype_attr) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape variable, ShapeOfTarget(s, dtype_attr));
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRankAtLeast(1, 1));
  if (!variable.has_rank() || !indices.has_rank()) return PartialShape();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth == kUnknown) return PartialShape();
  if (depth > variable.rank()) {
    return InvalidArgumentError(StrCat("indices is ", indices.ToString(), ": ", depth,
                                       " coordinates for a variable ", variable.ToString()));
  }
  std::vector<int64_t> dims(DimsOf(indices));
  dims.pop_back();
  for (int i = static_cast<int>(depth); i < variable.rank(); ++i) dims.push_back(variable.dim(i));
  return PartialShape::FromDims(dims);
}

// The shape of a variable as a value: a constant where the graph knows it.
Output ShapeOfVariable(GradientContext& g, Output handle) {
  const auto& type = handle.node->resource_type(handle.index);
  if (!type || !type->shape.is_fully_known()) return g.Add("VariableShape", {handle});
  std::vector<int32_t> dims;
  for (const int64_t dim : type->shape.dims()) {
    if (dim > std::numeric_limits<int32_t>::max()) {
      return g.Add("VariableShape", {handle}, {{"out_type", DType::kInt64}});
    }
    dims.push_back(static_cast<int32_t>(dim));
  }
  return g.Integers(std::move(dims));
}

// The product of elements [begin, end) of a shape; to its last one when end < 0.
Output ProductOf(GradientContext& g, Output shape, int32_t begin, int32_t end) {
  const Output part = g.Add("StridedSlice", {shape, g.Integers({begin}), g.Integers({end}), g.Integers({1})},
                            {{"end_mask", end < 0 ? 1 : 0}});
  return g.Add("Prod", {part, g.Constant(DType::kInt32, 0)});
}

// Row i of batch b is row b * rows + i of all batches one below the other. Whole variables, because rows that
// are named twice in one batch are few; TensorFlow's gradient forgets the batch and fails in the step.
Status BatchGatherGradient(GradientContext& g, int32_t batch_dims) {
  const Output shape = Cast(g, ShapeOfVariable(g, g.input(0)), DType::kInt64);
  const Output one = g.Constant(DType::kInt64, 1);
  const Output batch = ProductOf(g, shape, 0, batch_dims);
  const Output rows = ProductOf(g, shape, batch_dims, batch_dims + 1);
  const Output inner = ProductOf(g, shape, batch_dims + 1, -1);
  const Output count = g.Add("Size", {g.input(1)}, {{"out_type", DType::kInt64}});
  const Output per_batch = g.Add("FloorDiv", {count, g.Add("Maximum", {batch, one})});
  const Output ids =
      Reshape(g, Cast(g, g.input(1), DType::kInt64), g.Add("Pack", {std::vector<Output>{batch, per_batch}}));
  const Output begins = Mul(g, g.Add("Range", {g.Constant(DType::kInt64, 0), batch, one}), rows);
  const Output places =
      Reshape(g, Add(g, ids, g.Add("ExpandDims", {begins, g.Constant(DType::kInt32, 1)})), g.Integers({-1}));
  const Output values = Reshape(g, g.grad(0), g.Add("Pack", {std::vector<Output>{count, inner}}));
  g.set_input_grad(0, Reshape(g, g.Add("UnsortedSegmentSum", {values, places, Mul(g, batch, rows)}), shape));
  return OkStatus();
}

Status GatherGradient(GradientContext& g) {
  const int64_t batch_dims = g.attr<int64_t>("batch_dims");
  if (batch_dims != 0) return BatchGatherGradient(g, static_cast<int32_t>(batch_dims));
  g.set_input_grad(0, RowsLookedUp(g, g.input(1), ShapeOfVariable(g, g.input(0))));
  return OkStatus();
}

Status ScatterRowsShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape variable, ShapeOfTarget(s, "dtype"));
  const PartialShape &indices = s.input(1), &updates = s.input(2);
  if (variable.has_rank() && variable.rank() == 0) {
    return InvalidArgumentError("the variable must have at least one dimension, is a scalar");
  }
  if (!variable.has_rank() || !indices.has_rank() || updates.rank() == 0) return OkStatus();
  std::vector<int64_t> dims = DimsOf(indices);
  for (int i = 1; i < variable.rank(); ++i) dims.push_back(variable.dim(i));
  WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, PartialShape::FromDims(dims));
  if (wanted.IsCompatibleWith(updates)) return OkStatus();
  return InvalidArgumentError(StrCat("updates must be ", wanted.ToString(), " to change rows of a variable ",
                                     variable.ToString(), ", is ", updates.ToString()));
}

Status ScatterNdShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, ShapeAtCoordinates(s, "T"));
  if (wanted.IsCompatibleWith(s.input(2))) return OkStatus();
  return InvalidArgumentError(StrCat("updates must be ", wanted.ToString(), ", is ", s.input(2).ToString()));
}

OpDef ScatterRows(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ScatterRowsShape,
          .gradient = NotDifferentiable};
}

OpDef ScatterNd(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ScatterNdShape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> SlicesOps() {
  return {
      {.name = "ResourceGather",
       .summary = "Gives the rows of a variable that indices list.",
       .infer_shapes = GatherShape,
       .gradient = GatherGradient},
      {.name = "ResourceGatherNd",
       .summary = "Gives the slices of a variable at the coordinates in the last dimension of indices.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, ShapeAtCoordinates(s, "dtype"));
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         const PartialShape& indices = g.input(1).shape();
         if (indices.rank() != 2 || indices.dim(1) != 1) {
           const Output shape = g.Add("VariableShape", {g.input(0)}, {{"out_type", g.input(1).dtype()}});
           g.set_input_grad(0, g.Add("ScatterNd", {g.input(1), g.grad(0), shape}));
           return OkStatus();
         }
         const Output rows = Reshape(g, g.input(1), g.Integers({-1}));
         g.set_input_grad(0, IndexedSlices{g.grad(0), rows, ShapeOfVariable(g, g.input(0))});
         return OkStatus();
       }},
      {.name = "VariableShape",
       .summary = "Gives the shape of a variable.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
         const PartialShape shape = VariableType(s, 0).shape;
         s.set_output(0, PartialShape({shape.has_rank() ? shape.rank() : kUnknown}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "ResourceStridedSliceAssign",
       .summary = "Replaces the elements of a variable that StridedSlice would take by the value, which is "
                  "broadcast.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(ShapeOfTarget(s, "T").status());
         WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
         return MergeInputs(s, 1, 4).status();
       },
       .gradient = NotDifferentiable},
      ScatterRows("ResourceScatterUpdate", "Replaces rows of a variable."),
      ScatterRows("ResourceScatterAdd", "Adds to rows of a variable."),
      ScatterRows("ResourceScatterSub", "Subtracts from rows of a variable."),
      ScatterRows("ResourceScatterMul", "Multiplies rows of a variable."),
      ScatterRows("ResourceScatterDiv", "Divides rows of a variable."),
      ScatterRows("ResourceScatterMin", "Keeps the smaller of rows of a variable and the updates."),
      ScatterRows("ResourceScatterMax", "Keeps the larger of rows of a variable and the updates."),
      ScatterNd("ResourceScatterNdUpdate", "Replaces the slices of a variable at some coordinates."),
      ScatterNd("ResourceScatterNdAdd", "Adds to the slices of a variable at some coordinates."),
      ScatterNd("ResourceScatterNdSub", "Subtracts from the slices of a variable at some coordinates."),
      ScatterNd("ResourceScatterNdMin", "Keeps the smaller of slices of a variable and the updates."),
      ScatterNd("ResourceScatterNdMax", "Keeps the larger of slices of a variable and the updates."),
  };
}

}  // namespace weir
