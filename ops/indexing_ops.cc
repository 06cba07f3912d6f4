// Ops that join, cut, repeat, look up and choose. One op, one function: schema, shapes, gradient.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"
#include "ops/strided_slice.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::OkStatus;
using absl::Status;
using absl::StrCat;
using namespace formulas;  // NOLINT: the vocabulary of this file

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

std::vector<int64_t> DimsOf(const PartialShape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

// ---- Joining and splitting ----

Status ConcatShape(ShapeInference& s) {
  const int count = s.num_inputs() - 1;
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, count));
  PartialShape merged;
  int64_t length = 0;
  int first = -1;  // the first input of known rank
  for (int i = 0; i < count; ++i) {
    if (!s.input(i).has_rank()) {
      length = kUnknown;
      continue;
    }
    std::vector<int64_t> dims = DimsOf(s.input(i));
    if (axis) {
      WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(*axis, s.input(i).rank(), "axis"));
      length = AddDims(length, dims[index]);
      dims[index] = kUnknown;
    } else {
      std::fill(dims.begin(), dims.end(), kUnknown);
    }
    if (first < 0) first = i;
    WEIR_ASSIGN_OR_RETURN(const PartialShape rest, PartialShape::FromDims(dims));
    auto both = merged.MergeWith(rest);
    if (!both.ok()) {
      return InvalidArgumentError(StrCat("shapes differ outside axis ", axis ? StrCat(*axis) : "?", ": ",
                                         s.input_name(first), " is ", s.input(first).ToString(), ", ",
                                         s.input_name(i), " is ", s.input(i).ToString()));
    }
    merged = *std::move(both);
  }
  if (!merged.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(merged);
  if (axis) dims[*axis < 0 ? *axis + merged.rank() : *axis] = length;
  return SetOutputDims(s, 0, dims);
}

// A constant axis counted from the front, when it and the rank are known.
std::optional<int> KnownAxis(GradientContext& g, Output axis, Output tensor) {
  if (!tensor.shape().has_rank() || axis.node->op_name() != "Const") return std::nullopt;
  const auto& value = axis.node->attr<Tensor>("value");
  const int64_t raw = value.dtype() == DType::kInt64 ? value.scalar<int64_t>() : value.scalar<int32_t>();
  return static_cast<int>(raw < 0 ? raw + tensor.shape().rank() : raw);
}

// The part of `gradient` that belongs to each of the joined tensors: offsets are known when all sizes along
// the axis are.
bool SliceByKnownSizes(GradientContext& g, int count, std::optional<int> axis) {
  if (!axis) return false;
  for (int i = 0; i < count; ++i) {
    if (!g.input(i).shape().has_rank() || g.input(i).shape().dim(*axis) == kUnknown) return false;
  }
  const int rank = g.input(0).shape().rank();
  int64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> begin(rank, 0), size(rank, -1);
    begin[*axis] = static_cast<int32_t>(offset);
    size[*axis] = static_cast<int32_t>(g.input(i).shape().dim(*axis));
    offset += size[*axis];
    g.set_input_grad(i, g.Add("Slice", {g.grad(0), g.Integers(begin), g.Integers(size)}));
  }
  return true;
}

Status ConcatGradient(GradientContext& g) {
  const int count = g.num_inputs() - 1;
  if (SliceByKnownSizes(g, count, KnownAxis(g, g.input(count), g.output(0)))) return OkStatus();
  std::vector<Output> shapes;
  for (int i = 0; i < count; ++i) shapes.push_back(ShapeOf(g, g.input(i)));
  const Output rank = g.Add("Rank", {g.input(0)});
  const Output axis = g.Add("FloorMod", {Cast(g, g.input(count), DType::kInt32), rank});
  Node* const offsets = g.graph().AddNode("ConcatOffset", {axis, shapes}, {}, "", g.node().source());
  if (offsets == nullptr) return g.graph().status();
  for (int i = 0; i < count; ++i) {
    g.set_input_grad(i, g.Add("Slice", {g.grad(0), offsets->output(i), shapes[i]}));
  }
  return OkStatus();
}

OpDef ConcatV2Op() {
  return {.name = "ConcatV2",
          .summary = "Joins tensors along an axis.",
          .inputs = {"values: N * T", "axis: Tidx"},
          .outputs = {"output: T"},
          .attrs = {"N: int >= 2", "T: type", "Tidx: {int32, int64} = int32"},
          .infer_shapes = ConcatShape,
          .gradient = ConcatGradient};
}

OpDef ConcatOffsetOp() {
  return {.name = "ConcatOffset",
          .summary = "Gives where each of the joined tensors begins in the result of ConcatV2.",
          .inputs = {"concat_dim: int32", "shape: N * shape_type"},
          .outputs = {"offset: N * shape_type"},
          .attrs = {"N: int >= 2", "shape_type: {int32, int64} = int32"},
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
            for (int i = 1; i < s.num_inputs(); ++i) {
              WEIR_ASSIGN_OR_RETURN(PartialShape shape, s.WithRank(i, 1));
              s.set_output(i - 1, std::move(shape));
            }
            return MergeInputs(s, 1, s.num_inputs()).status();
          },
          .gradient = NotDifferentiable};
}

OpDef SplitOp() {
  return {.name = "Split",
          .summary = "Cuts a tensor into num_split equal parts along an axis.",
          .inputs = {"split_dim: int32", "value: T"},
          .outputs = {"output: num_split * T"},
          .attrs = {"num_split: int >= 1", "T: type"},
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, 0));
            const PartialShape& value = s.input(1);
            if (!value.has_rank()) return OkStatus();
            std::vector<int64_t> dims(value.rank(), kUnknown);
            if (axis) {
              WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(*axis, value.rank(), "split_dim"));
              dims = DimsOf(value);
              const int64_t parts = s.num_outputs();
              if (dims[index] != kUnknown && dims[index] % parts != 0) {
                return InvalidArgumentError(StrCat("cannot split axis ", index, " of value ",
                                                   value.ToString(), " into ", parts, " equal parts"));
              }
              if (dims[index] != kUnknown) dims[index] /= parts;
            }
            for (int i = 0; i < s.num_outputs(); ++i) WEIR_RETURN_IF_ERROR(SetOutputDims(s, i, dims));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            const std::vector<Output> grads = GradsOrZeros(g);
            g.set_input_grad(1, grads.size() == 1 ? grads[0] : g.Add("ConcatV2", {grads, g.input(0)}));
            return OkStatus();
          }};
}

OpDef PackOp() {
  return {.name = "Pack",
          .summary = "Stacks tensors of one shape along a new axis.",
          .inputs = {"values: N * T"},
          .outputs = {"output: T"},
          .attrs = {"N: int >= 1", "T: type", "axis: int = 0"},
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(const PartialShape merged, MergeInputs(s, 0, s.num_inputs()));
            if (!merged.has_rank()) return OkStatus();
            WEIR_ASSIGN_OR_RETURN(const int axis,
                                  NormalizeAxis(s.attr<int64_t>("axis"), merged.rank() + 1, "axis"));
            std::vector<int64_t> dims = DimsOf(merged);
            dims.insert(dims.begin() + axis, s.num_inputs());
            return SetOutputDims(s, 0, dims);
          },
          .gradient = [](GradientContext& g) -> Status {
            Node* const parts = g.graph().AddNode(
                "Unpack", {g.grad(0)}, {{"num", g.num_inputs()}, {"axis", g.attr<int64_t>("axis")}}, "",
                g.node().source());
            if (parts == nullptr) return g.graph().status();
            for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, parts->output(i));
            return OkStatus();
          }};
}

OpDef UnpackOp() {
  return {.name = "Unpack",
          .summary = "Gives the num slices of a tensor along an axis, which they lose.",
          .inputs = {"value: T"},
          .outputs = {"output: num * T"},
          .attrs = {"num: int >= 0", "T: type", "axis: int = 0"},
          .infer_shapes = [](ShapeInference& s) -> Status {
            const PartialShape& value = s.input(0);
            if (!value.has_rank()) return OkStatus();
            WEIR_ASSIGN_OR_RETURN(const int axis,
                                  NormalizeAxis(s.attr<int64_t>("axis"), value.rank(), "axis"));
            std::vector<int64_t> dims = DimsOf(value);
            if (dims[axis] != kUnknown && dims[axis] != s.num_outputs()) {
              return InvalidArgumentError(StrCat("num is ", s.num_outputs(), ", but axis ", axis,
                                                 " of value ", value.ToString(), " has length ", dims[axis]));
            }
            dims.erase(dims.begin() + axis);
            for (int i = 0; i < s.num_outputs(); ++i) WEIR_RETURN_IF_ERROR(SetOutputDims(s, i, dims));
            return OkStatus();
          },
          .gradient = [](GradientContext& g) -> Status {
            g.set_input_grad(0, g.Add("Pack", {GradsOrZeros(g)}, {{"axis", g.attr<int64_t>("axis")}}));
            return OkStatus();
          }};
}

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

OpDef SliceOp() {
  return {
      .name = "Slice",
      .summary = "Gives the size elements from begin on, in every dimension; a size of -1 means to the end.",
      .inputs = {"input: T", "begin: Index", "size: Index"},
      .outputs = {"output: T"},
      .attrs = {"T: type", "Index: {int32, int64}"},
      .infer_shapes = SliceShape,
      .gradient = SliceGradient};
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
  if (!MergeInputs(s, 1, 4).ok()) return MergeInputs(s, 1, 4).status();
  const auto strides = s.input_integers(3);
  if (!strides) return OkStatus();
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, InferStridedSlice(s.input(0), s.input_integers(1),
                                                              s.input_integers(2), *strides, MasksOf(s)));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

OpDef StridedSliceOp() {
  return {
      .name = "StridedSlice",
      .summary =
          "Gives input[begin:end:strides] as Python's indexing does; masks say which parts were left out.",
      .inputs = {"input: T", "begin: Index", "end: Index", "strides: Index"},
      .outputs = {"output: T"},
      .attrs = {"T: type", "Index: {int16, int32, int64}", "begin_mask: int = 0", "end_mask: int = 0",
                "ellipsis_mask: int = 0", "new_axis_mask: int = 0", "shrink_axis_mask: int = 0"},
      .infer_shapes = StridedSliceShape,
      .gradient = [](GradientContext& g) -> Status {
        const DType index = g.input(1).dtype();
        if (index == DType::kInt16)
          return absl::UnimplementedError("StridedSliceGrad takes no int16 indices");
        Output shape = ShapeOf(g, g.input(0));
        if (index == DType::kInt64) shape = Cast(g, shape, index);
        g.set_input_grad(0, g.Add("StridedSliceGrad", {shape, g.input(1), g.input(2), g.input(3), g.grad(0)},
                                  MaskAttrs(g)));
        return OkStatus();
      }};
}

OpDef StridedSliceGradOp() {
  return {
      .name = "StridedSliceGrad",
      .summary = "Gives zeros of the given shape with dy where StridedSlice would take its elements from.",
      .inputs = {"shape: Index", "begin: Index", "end: Index", "strides: Index", "dy: T"},
      .outputs = {"output: T"},
      .attrs = {"T: type", "Index: {int32, int64}", "begin_mask: int = 0", "end_mask: int = 0",
                "ellipsis_mask: int = 0", "new_axis_mask: int = 0", "shrink_axis_mask: int = 0"},
      .infer_shapes = [](ShapeInference& s) -> Status {
        WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
        s.set_output(0, std::move(shape));
        return OkStatus();
      },
      .gradient = [](GradientContext& g) -> Status {
        g.set_input_grad(
            4, g.Add("StridedSlice", {g.grad(0), g.input(1), g.input(2), g.input(3)}, MaskAttrs(g)));
        return OkStatus();
      }};
}

// ---- Repeating ----

OpDef TileOp() {
  return {.name = "Tile",
          .summary = "Repeats the input multiples[i] times along every dimension i.",
          .inputs = {"input: T", "multiples: Tmultiples"},
          .outputs = {"output: T"},
          .attrs = {"T: type", "Tmultiples: {int32, int64} = int32"},
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
            const Output axes = g.Add("Range", {g.Constant(DType::kInt32, 0), g.Add("Size", {split}),
                                                g.Constant(DType::kInt32, 2)});
            const Output sum = Sum(g, Reshape(g, g.grad(0), split), axes);
            g.set_input_grad(0, ReshapeLike(g, sum, g.input(0)));
            return OkStatus();
          }};
}

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

OpDef BroadcastToOp() {
  return {
      .name = "BroadcastTo",
      .summary =
          "Repeats the input along dimensions of 1 and new leading dimensions until it has the given shape.",
      .inputs = {"input: T", "shape: Tidx"},
      .outputs = {"output: T"},
      .attrs = {"T: type", "Tidx: {int32, int64} = int32"},
      .infer_shapes = BroadcastToShape,
      .gradient = [](GradientContext& g) -> Status {
        g.set_input_grad(0, UndoBroadcast(g, g.grad(0), {g.input(0), g.output(0)}, 0));
        return OkStatus();
      }};
}

OpDef BroadcastGradientArgsOp() {
  return {
      .name = "BroadcastGradientArgs",
      .summary =
          "Gives the axes over which the gradients of two tensors of shapes s0 and s1, broadcast together, "
          "are summed.",
      .inputs = {"s0: T", "s1: T"},
      .outputs = {"r0: T", "r1: T"},
      .attrs = {"T: {int32, int64} = int32"},
      .infer_shapes = [](ShapeInference& s) -> Status {
        for (int i = 0; i < 2; ++i) {
          WEIR_RETURN_IF_ERROR(s.WithRank(i, 1).status());
          s.set_output(i, PartialShape({kUnknown}));
        }
        return OkStatus();
      },
      .gradient = NotDifferentiable};
}

Status PadShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape paddings_shape, s.WithRank(1, 2));
  const PartialShape& input = s.input(0);
  if ((paddings_shape.dim(1) != kUnknown && paddings_shape.dim(1) != 2) ||
      (input.has_rank() && paddings_shape.dim(0) != kUnknown && paddings_shape.dim(0) != input.rank())) {
    return InvalidArgumentError(StrCat("paddings must be [rank,2]: input is ", input.ToString(),
                                       ", paddings is ", paddings_shape.ToString()));
  }
  if (!input.has_rank()) {
    if (paddings_shape.dim(0) != kUnknown) {
      s.set_output(0, PartialShape::OfRank(static_cast<int>(paddings_shape.dim(0))));
    }
    return OkStatus();
  }
  std::vector<int64_t> dims(input.rank(), kUnknown);
  if (const auto paddings = s.input_integers(1)) {
    for (int i = 0; i < input.rank(); ++i) {
      const int64_t before = (*paddings)[2 * i], after = (*paddings)[2 * i + 1];
      if (before < 0 || after < 0) {
        return InvalidArgumentError(StrCat("paddings of axis ", i, " are negative: ", before, ", ", after));
      }
      dims[i] = AddDims(input.dim(i), AddDims(before, after));
    }
  }
  return SetOutputDims(s, 0, dims);
}

OpDef PadOp() {
  return {.name = "Pad",
          .summary = "Puts paddings[i][0] zeros before and paddings[i][1] behind every dimension i.",
          .inputs = {"input: T", "paddings: Tpaddings"},
          .outputs = {"output: T"},
          .attrs = {"T: type", "Tpaddings: {int32, int64} = int32"},
          .infer_shapes = PadShape,
          .gradient = [](GradientContext& g) -> Status {
            const Output shape = Cast(g, ShapeOf(g, g.input(0)), g.input(1).dtype());
            const Output zero_one = g.Integers({0, 1});
            // The first column of paddings: where the input begins in the output.
            const Output begin =
                g.Add("StridedSlice", {g.input(1), g.Integers({0, 0}), zero_one, g.Integers({1, 1})},
                      {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
            g.set_input_grad(0, g.Add("Slice", {g.grad(0), begin, shape}));
            return OkStatus();
          }};
}

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

// Adds up the rows of `values` (gradients of the looked-up rows) by index; rows are dimension 0.
Output ScatterRows(GradientContext& g, Output values, Output indices, Output num_rows) {
  return g.Add("UnsortedSegmentSum", {values, indices, num_rows});
}

std::vector<int32_t> Permutation(int rank, const std::vector<int32_t>& first) {
  std::vector<int32_t> result = first;
  for (int i = 0; i < rank; ++i) {
    if (std::find(first.begin(), first.end(), i) == first.end()) result.push_back(i);
  }
  return result;
}

std::vector<int32_t> Inverse(const std::vector<int32_t>& permutation) {
  std::vector<int32_t> result(permutation.size());
  for (int i = 0; i < static_cast<int>(permutation.size()); ++i) result[permutation[i]] = i;
  return result;
}

Status GatherGradient(GradientContext& g) {
  const std::optional<int> axis = KnownAxis(g, g.input(2), g.input(0));
  const PartialShape& indices_shape = g.input(1).shape();
  if (g.attr<int64_t>("batch_dims") != 0 || !axis || !indices_shape.has_rank()) {
    return absl::UnimplementedError(
        "the gradient of GatherV2 needs batch_dims = 0, a constant axis and known ranks");
  }
  Output indices = g.input(1);
  if (indices.dtype() == DType::kInt16) indices = Cast(g, indices, DType::kInt32);
  const Output params_shape = ShapeOf(g, g.input(0));
  const Output num_rows =
      g.Add("StridedSlice", {params_shape, g.Integers({*axis}), g.Integers({*axis + 1}), g.Integers({1})},
            {{"shrink_axis_mask", 1}});
  Output values = g.grad(0);
  // Dimensions of the indices to the front, and afterwards the rows back to the axis.
  std::vector<int32_t> index_axes;
  for (int i = 0; i < indices_shape.rank(); ++i) index_axes.push_back(*axis + i);
  const int params_rank = g.input(0).shape().rank();
  if (*axis != 0) {
    const auto to_front = Permutation(params_rank - 1 + indices_shape.rank(), index_axes);
    values = g.Add("Transpose", {values, g.Integers(to_front)});
  }
  Output result = ScatterRows(g, values, indices, num_rows);
  if (*axis != 0) {
    result = g.Add("Transpose", {result, g.Integers(Inverse(Permutation(params_rank, {*axis})))});
  }
  g.set_input_grad(0, result);
  return OkStatus();
}

OpDef GatherV2Op() {
  return {.name = "GatherV2",
          .summary = "Gives the slices of params along an axis that indices list.",
          .inputs = {"params: Tparams", "indices: Tindices", "axis: Taxis"},
          .outputs = {"output: Tparams"},
          .attrs = {"batch_dims: int = 0", "Tparams: type", "Tindices: {int16, int32, int64}",
                    "Taxis: {int32, int64}"},
          .infer_shapes = GatherShape,
          .gradient = GatherGradient};
}

Status UnsortedSegmentShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> num_segments, ScalarInput(s, 2));
  const PartialShape& data = s.input(0);
  const PartialShape& ids = s.input(1);
  if (num_segments && *num_segments < 0) {
    return InvalidArgumentError(StrCat("num_segments is ", *num_segments, ", must not be negative"));
  }
  if (!data.has_rank() || !ids.has_rank()) return OkStatus();
  std::vector<int64_t> dims = {num_segments.value_or(kUnknown)};
  for (int i = 0; i < ids.rank(); ++i) {
    if (i >= data.rank() || !s.MergeDims(data.dim(i), ids.dim(i)).ok()) {
      return InvalidArgumentError(StrCat("data must begin with the dimensions of segment_ids: data is ",
                                         data.ToString(), ", segment_ids is ", ids.ToString()));
    }
  }
  for (int i = ids.rank(); i < data.rank(); ++i) dims.push_back(data.dim(i));
  return SetOutputDims(s, 0, dims);
}

OpDef UnsortedSegmentSumOp() {
  return {
      .name = "UnsortedSegmentSum",
      .summary = "Adds up the slices of data that have the same segment id; negative ids are left out.",
      .inputs = {"data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"},
      .outputs = {"output: T"},
      .attrs =
          {"T: {float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, "
           "half, uint32, uint64}",
           "Tindices: {int16, int32, int64}", "Tnumsegments: {int32, int64} = int32"},
      .infer_shapes = UnsortedSegmentShape,
      .gradient = [](GradientContext& g) -> Status {
        if (!g.input(0).shape().has_rank() || !g.input(1).shape().has_rank()) {
          return absl::UnimplementedError("the gradient of UnsortedSegmentSum needs known ranks");
        }
        const Output ids = g.input(1);
        const Output zero = g.Constant(ids.dtype(), 0);
        const Output rows =
            g.Add("GatherV2", {g.grad(0), g.Add("Maximum", {ids, zero}), g.Constant(DType::kInt32, 0)});
        Output is_counted = g.Add("GreaterEqual", {ids, zero});
        for (int i = g.input(1).shape().rank(); i < g.input(0).shape().rank(); ++i) {
          is_counted = g.Add("ExpandDims", {is_counted, g.Constant(DType::kInt32, -1)});
        }
        g.set_input_grad(0, Select(g, is_counted, rows, g.Constant(g.grad(0).dtype(), 0)));
        return OkStatus();
      }};
}

OpDef OneHotOp() {
  return {.name = "OneHot",
          .summary = "Gives on_value at the index and off_value elsewhere along a new axis of length depth.",
          .inputs = {"indices: TI", "depth: int32", "on_value: T", "off_value: T"},
          .outputs = {"output: T"},
          .attrs = {"axis: int = -1", "T: type", "TI: {uint8, int8, int32, int64} = int64"},
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
          .gradient = NotDifferentiable};
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

OpDef SelectOp() {
  return {.name = "Select",
          .summary = "Gives t where condition is true and e elsewhere; a vector condition chooses rows.",
          .inputs = {"condition: bool", "t: T", "e: T"},
          .outputs = {"output: T"},
          .attrs = {"T: type"},
          .infer_shapes = SelectShape,
          .gradient = [](GradientContext& g) -> Status {
            const Output zeros = ZerosLike(g, g.input(1));
            g.set_input_grad(1, g.Add("Select", {g.input(0), g.grad(0), zeros}));
            g.set_input_grad(2, g.Add("Select", {g.input(0), zeros, g.grad(0)}));
            return OkStatus();
          }};
}

OpDef SelectV2Op() {
  return {.name = "SelectV2",
          .summary = "Gives t where condition is true and e elsewhere; all three are broadcast together.",
          .inputs = {"condition: bool", "t: T", "e: T"},
          .outputs = {"output: T"},
          .attrs = {"T: type"},
          .is_elementwise = true,
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_ASSIGN_OR_RETURN(const PartialShape chosen,
                                  ShapeInference::Broadcast(s.input(1), s.input(2)));
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
          }};
}

OpDef WhereOp() {
  return {
      .name = "Where",
      .summary = "Gives the coordinates of the elements that are not zero or false, one row each.",
      .inputs = {"input: T"},
      .outputs = {"index: int64"},
      .attrs =
          {"T: {float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, "
           "half, uint32, uint64, bool} = bool"},
      .infer_shapes = [](ShapeInference& s) -> Status {
        s.set_output(0, PartialShape({kUnknown, s.input(0).has_rank() ? s.input(0).rank() : kUnknown}));
        return OkStatus();
      },
      .gradient = NotDifferentiable};
}

}  // namespace

Status RegisterIndexingOps(OpRegistry& registry) {
  return RegisterAll(
      registry, {ConcatV2Op(), ConcatOffsetOp(), SplitOp(), PackOp(), UnpackOp(), SliceOp(), StridedSliceOp(),
                 StridedSliceGradOp(), TileOp(), BroadcastToOp(), BroadcastGradientArgsOp(), PadOp(),
                 GatherV2Op(), UnsortedSegmentSumOp(), OneHotOp(), SelectOp(), SelectV2Op(), WhereOp()});
}

}  // namespace weir
