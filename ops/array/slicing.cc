// Ops that cut and repeat. One op, one function: schema, shapes, gradient.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/array/strided_slice.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// ---- Cutting ----

// The length of begin, size and the like, which must be the rank of input 0.
Status MatchRank(ShapeInference& s, int index) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape vector, s.WithRank(index, 1));
  if (s.input(0).has_rank() && vector.dim(0) != kUnknown && vector.dim(0) != s.input(0).rank()) {
    return InvalidArgumentError(StrCat(s.input_name(index), " must have one element per axis: input is ",
                                       s.input(0).ToString(), ", ", s.input_name(index), " is ",
                                       vector.ToString()));
  }
  return OkStatus();
}

Status SliceShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(MatchRank(s, 1));
  WEIR_RETURN_IF_ERROR(MatchRank(s, 2));
  const PartialShape& input = s.input(0);
  const auto begin = s.input_integers(1);
  const auto size = s.input_integers(2);
  int rank = input.rank();
  for (int i : {1, 2}) {  // begin and size have one element per dimension
    if (rank < 0 && s.input(i).has_rank()) rank = static_cast<int>(s.input(i).dim(0));
  }
  if (rank < 0) return OkStatus();
  // A size that only a step computes may still be the shape of a known tensor.
  WEIR_ASSIGN_OR_RETURN(const PartialShape size_shape, s.InputAsShape(2));
  std::vector<int64_t> dims(rank, kUnknown);
  for (int i = 0; i < rank; ++i) {
    const int64_t length = input.has_rank() ? input.dim(i) : kUnknown;
    const int64_t want = size ? (*size)[i] : size_shape.has_rank() ? size_shape.dim(i) : kUnknown;
    const bool to_end = size && want == -1;
    const bool starts_inside = !begin || ((*begin)[i] >= 0 && (length == kUnknown || (*begin)[i] <= length));
    if (to_end && begin && length != kUnknown && starts_inside) dims[i] = length - (*begin)[i];
    if (!to_end && want >= 0) dims[i] = want;
    const bool ends_inside = !begin || length == kUnknown || dims[i] == kUnknown ||
                             dims[i] <= length - std::max<int64_t>(0, (*begin)[i]);
    if (!starts_inside || !ends_inside || (size && want < -1)) {
      return InvalidArgumentError(StrCat("slice of axis ", i, " leaves the input: input is ",
                                         input.ToString(), ", begin is ", begin ? StrCat((*begin)[i]) : "?",
                                         ", size is ", want));
    }
  }
  return SetOutputDims(s, 0, dims);
}

// Zeros around the gradient, where the slice left elements out.
Status SliceGradient(GradientContext& g) {
  const Output begin = g.input(1);
  Output shape = ShapeOf(g, g.input(0));
  Output size = ShapeOf(g, g.output(0));
  if (begin.dtype() == DType::kInt64) {
    shape = Cast(g, shape, DType::kInt64);
    size = Cast(g, size, DType::kInt64);
  }
  const Output after = Sub(g, Sub(g, shape, size), begin);
  const Output paddings = g.Add("Pack", {std::vector<Output>{begin, after}}, {{"axis", 1}});
  g.set_input_grad(0, g.Add("Pad", {g.grad(0), paddings}));
  return OkStatus();
}

SliceMasks MasksOf(ShapeInference& s) {
  return {.begin = s.attr<int64_t>("begin_mask"),
          .end = s.attr<int64_t>("end_mask"),
          .ellipsis = s.attr<int64_t>("ellipsis_mask"),
          .new_axis = s.attr<int64_t>("new_axis_mask"),
          .shrink_axis = s.attr<int64_t>("shrink_axis_mask")};
}

AttrMap MaskAttrs(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    attrs[name] = g.attr<int64_t>(name);
  }
  return attrs;
}

Status StridedSliceShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape begin_shape, s.WithRank(1, 1));
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 1, 4).status());
  const auto strides = s.input_integers(3);
  if (!strides) return OkStatus();
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, InferStridedSlice(s.input(0), s.input_integers(1),
                                                              s.input_integers(2), *strides, MasksOf(s)));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status SliceUpdateShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 1, 4).status());
  return UnchangedShape(s);
}

// The value gets the gradient of the slice, summed where it was repeated; the input that of all the rest.
Status SliceUpdateGradient(GradientContext& g) {
  const Output begin = g.input(1), end = g.input(2), strides = g.input(3), value = g.input(4);
  g.set_input_grad(0, g.Add("TensorStridedSliceUpdate", {g.grad(0), begin, end, strides, Zero(g, g.grad(0))},
                            MaskAttrs(g)));
  const Output slice = g.Add("StridedSlice", {g.grad(0), begin, end, strides}, MaskAttrs(g));
  const Output shape = ShapeOf(g, value), slice_shape = g.Add("Shape", {slice});
  Node* const repeated =
      g.graph().AddNode("BroadcastGradientArgs", {shape, slice_shape}, {}, "", g.node().source());
  if (repeated == nullptr) return OkStatus();  // the builder keeps the error
  // The value may have more dimensions than the slice.
  const Output whole = BroadcastTo(g, slice, g.Add("BroadcastArgs", {shape, slice_shape}));
  g.set_input_grad(4, Reshape(g, Sum(g, whole, repeated->output(0)), shape));
  return OkStatus();
}

// ---- Repeating ----

Status BroadcastToShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape target, RequestedShape(s, 1));
  const PartialShape& input = s.input(0);
  s.set_output(0, target);
  if (!target.has_rank() || !input.has_rank()) return OkStatus();
  const int offset = target.rank() - input.rank();
  if (offset < 0) {
    return InvalidArgumentError(StrCat("shape must not have a lower rank: input is ", input.ToString(),
                                       ", shape is ", target.ToString()));
  }
  for (int i = 0; i < input.rank(); ++i) {
    const int64_t from = input.dim(i), to = target.dim(i + offset);
    if (from != kUnknown && from != 1 && to != kUnknown && to != from) {
      return InvalidArgumentError(
          StrCat("cannot broadcast: input is ", input.ToString(), ", shape is ", target.ToString()));
    }
  }
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SlicingOps() {
  return {

      // ---- Cutting ----
      {.name = "Slice",
       .summary = "Gives the size elements from begin on, in every dimension; a size of -1 means to the end.",
       .infer_shapes = SliceShape,
       .gradient = SliceGradient},
      {.name = "StridedSlice",
       .summary =
           "Gives input[begin:end:strides] as Python's indexing does; masks say which parts were left out.",
       .infer_shapes = StridedSliceShape,
       .gradient = [](GradientContext& g) -> Status {
         // StridedSliceGrad takes no int16.
         const DType index = g.input(1).dtype() == DType::kInt64 ? DType::kInt64 : DType::kInt32;
         const auto as_index = [&](Output a) { return a.dtype() == index ? a : Cast(g, a, index); };
         Output shape = ShapeOf(g, g.input(0));
         if (index == DType::kInt64) shape = Cast(g, shape, index);
         g.set_input_grad(
             0, g.Add("StridedSliceGrad",
                      {shape, as_index(g.input(1)), as_index(g.input(2)), as_index(g.input(3)), g.grad(0)},
                      MaskAttrs(g)));
         return OkStatus();
       }},
      {.name = "StridedSliceGrad",
       .summary = "Gives zeros of the given shape with dy where StridedSlice would take its elements from.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(
             4, g.Add("StridedSlice", {g.grad(0), g.input(1), g.input(2), g.input(3)}, MaskAttrs(g)));
         return OkStatus();
       }},
      {.name = "TensorStridedSliceUpdate",
       .summary =
           "Gives the input with the value, which is broadcast, where StridedSlice would take its elements.",
       .infer_shapes = SliceUpdateShape,
       .gradient = SliceUpdateGradient},

      // ---- Repeating ----
      {.name = "Tile",
       .summary = "Repeats the input multiples[i] times along every dimension i.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(MatchRank(s, 1));
         WEIR_ASSIGN_OR_RETURN(const PartialShape multiples, RequestedShape(s, 1));
         const PartialShape& input = s.input(0);
         if (!input.has_rank() && multiples.has_rank())
           s.set_output(0, PartialShape::OfRank(multiples.rank()));
         if (!input.has_rank()) return OkStatus();
         std::vector<int64_t> dims(input.rank(), kUnknown);
         for (int i = 0; i < input.rank() && multiples.has_rank(); ++i) {
           dims[i] = MultiplyDims(input.dim(i), multiples.dim(i));
         }
         return SetOutputDims(s, 0, dims);
       },
       .gradient = [](GradientContext& g) -> Status {
         // With shape s and multiples m the gradient is [m0, s0, m1, s1, ...]: repetitions are its even
         // axes.
         const Output multiples = Cast(g, g.input(1), DType::kInt32);
         const Output pairs =
             g.Add("Pack", {std::vector<Output>{multiples, ShapeOf(g, g.input(0))}}, {{"axis", 1}});
         const Output split = Reshape(g, pairs, g.Integers({-1}));
         const Output axes = g.Add(
             "Range", {g.Constant(DType::kInt32, 0), g.Add("Size", {split}), g.Constant(DType::kInt32, 2)});
         const Output sum = Sum(g, Reshape(g, g.grad(0), split), axes);
         g.set_input_grad(0, ReshapeLike(g, sum, g.input(0)));
         return OkStatus();
       }},
      {.name = "BroadcastTo",
       .summary =
           "Repeats the input along dimensions of 1 and new leading dimensions until it has the given shape.",
       .infer_shapes = BroadcastToShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, UndoBroadcast(g, g.grad(0), {g.input(0), g.output(0)}, 0));
         return OkStatus();
       }},
      {.name = "BroadcastArgs",
       .summary = "Gives the shape of two tensors of shapes s0 and s1 broadcast together.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape s0, s.WithRank(0, 1));
         WEIR_ASSIGN_OR_RETURN(const PartialShape s1, s.WithRank(1, 1));
         const bool is_known = s0.is_fully_known() && s1.is_fully_known();
         s.set_output(0, PartialShape({is_known ? std::max(s0.dim(0), s1.dim(0)) : kUnknown}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "BroadcastGradientArgs",
       .summary =
           "Gives the axes over which the gradients of two tensors of shapes s0 and s1, broadcast together, "
           "are summed.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         for (int i = 0; i < 2; ++i) {
           WEIR_RETURN_IF_ERROR(s.WithRank(i, 1).status());
           s.set_output(i, PartialShape({kUnknown}));
         }
         return OkStatus();
       },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
