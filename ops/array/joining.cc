// Ops that join tensors and take them apart. One op, one function: schema, shapes, gradient.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// Of inputs [begin, end), joined along the axis that another input is.
Status JoinedShape(ShapeInference& s, int begin, int end, int axis_input) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, axis_input));
  PartialShape merged;
  int64_t length = 0;
  int first = -1;  // the first input of known rank
  for (int i = begin; i < end; ++i) {
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

Status ConcatShape(ShapeInference& s) {
  const int count = s.num_inputs() - 1;
  return JoinedShape(s, 0, count, count);
}

// The axis, N tensors, N least numbers and N largest ones.
Status QuantizedConcatShape(ShapeInference& s) {
  const int count = (s.num_inputs() - 1) / 3;
  for (int i = 1 + count; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  for (const int output : {1, 2}) s.set_output(output, PartialShape(Shape()));
  return JoinedShape(s, 1, 1 + count, 0);
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

// The elements of an input of sizes, which may also be of int8.
std::optional<std::vector<int64_t>> KnownSizes(const ShapeInference& s, int index) {
  if (s.input_type(index) != DType::kInt8) return s.input_integers(index);
  const std::optional<Tensor> sizes = s.input_constant(index);
  if (!sizes) return std::nullopt;
  return std::vector<int64_t>(sizes->flat<int8_t>().begin(), sizes->flat<int8_t>().end());
}

// Replaces the -1 among the sizes of parts by what `whole` leaves for it.
Status InferRemainder(int64_t whole, std::vector<int64_t>& sizes) {
  int64_t sum = 0;
  int64_t* remainder = nullptr;
  for (int64_t& size : sizes) {
    if (size < -1 || (size == -1 && remainder != nullptr)) {
      return InvalidArgumentError(StrCat("size_splits may have one -1 and no other negative size, is [",
                                         absl::StrJoin(sizes, ","), "]"));
    }
    if (size == -1) {
      remainder = &size;
    } else {
      sum = AddDims(sum, size);
    }
  }
  if (whole == kUnknown || sum == kUnknown) return OkStatus();
  if (remainder == nullptr ? sum != whole : sum > whole) {
    return InvalidArgumentError(
        StrCat("size_splits is [", absl::StrJoin(sizes, ","), "], the dimension to split is ", whole));
  }
  if (remainder != nullptr) *remainder = whole - sum;
  return OkStatus();
}

// The sizes of the parts along the split axis, one of which may be -1 for what is left.
Status SplitVShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, 2));
  const PartialShape& value = s.input(0);
  if (!value.has_rank()) return OkStatus();
  const int parts = s.num_outputs();
  std::vector<int64_t> dims(value.rank(), kUnknown);
  std::optional<std::vector<int64_t>> sizes = KnownSizes(s, 1);
  int index = 0;
  if (axis) {
    WEIR_ASSIGN_OR_RETURN(index, NormalizeAxis(*axis, value.rank(), "split_dim"));
    dims = DimsOf(value);
  }
  if (sizes && static_cast<int>(sizes->size()) != parts) {
    return InvalidArgumentError(StrCat("size_splits must have ", parts, " elements, has ", sizes->size()));
  }
  if (axis && sizes) WEIR_RETURN_IF_ERROR(InferRemainder(dims[index], *sizes));
  for (int i = 0; i < parts; ++i) {
    if (axis) dims[index] = sizes ? (*sizes)[i] : parts == 1 ? value.dim(index) : kUnknown;
    WEIR_RETURN_IF_ERROR(SetOutputDims(s, i, dims));
  }
  return OkStatus();
}

Status ConcatGradient(GradientContext& g) {
  const int count = g.num_inputs() - 1;
  if (SliceByKnownSizes(g, count, KnownAxis(g.input(count), g.output(0)))) return OkStatus();
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

// Attr shape, whose rows are the inputs.
Status ParallelConcatShape(ShapeInference& s) {
  const PartialShape& shape = s.attr<PartialShape>("shape");
  WEIR_ASSIGN_OR_RETURN(const PartialShape row, MergeInputs(s, 0, s.num_inputs()));
  if (row.has_rank()) {
    if (row.rank() == 0) {
      return InvalidArgumentError(
          "The rank of all input shapes must be greater than 0, but input 0 had rank 0.");
    }
    if (row.dim(0) != 1 && row.dim(0) != kUnknown)
      return InvalidArgumentError(StrCat("Size of first dimension must be 1. It is ", row.ToString()));
    std::vector<int64_t> dims = DimsOf(row);
    dims[0] = s.num_inputs();
    WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, PartialShape::FromDims(dims));
    if (!wanted.IsCompatibleWith(shape)) {
      return InvalidArgumentError(StrCat("attr shape is ", shape.ToString(), " for ", s.num_inputs(),
                                         " values that are each ", row.ToString()));
    }
  }
  s.set_output(0, shape);
  return OkStatus();
}

}  // namespace

std::vector<OpDef> JoiningOps() {
  return {
      {.name = "ConcatV2",
       .summary = "Joins tensors along an axis.",
       .infer_shapes = ConcatShape,
       .gradient = ConcatGradient},
      {.name = "QuantizedConcat",
       .summary = "Joins quantized tensors along an axis, in a range that holds the ranges of all.",
       .infer_shapes = QuantizedConcatShape,
       .gradient = NotDifferentiable},
      {.name = "ConcatOffset",
       .summary = "Gives where each of the joined tensors begins in the result of ConcatV2.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
         for (int i = 1; i < s.num_inputs(); ++i) {
           WEIR_ASSIGN_OR_RETURN(PartialShape shape, s.WithRank(i, 1));
           s.set_output(i - 1, std::move(shape));
         }
         return MergeInputs(s, 1, s.num_inputs()).status();
       },
       .gradient = NotDifferentiable},
      {.name = "Split",
       .summary = "Cuts a tensor into num_split equal parts along an axis.",
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
             return InvalidArgumentError(StrCat("cannot split axis ", index, " of value ", value.ToString(),
                                                " into ", parts, " equal parts"));
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
       }},
      {.name = "SplitV",
       .summary = "Cuts a tensor into num_split parts of the given sizes along an axis; one size may be -1.",
       .infer_shapes = SplitVShape,
       .gradient = [](GradientContext& g) -> Status {
         const std::vector<Output> grads = GradsOrZeros(g);
         g.set_input_grad(0, grads.size() == 1 ? grads[0] : g.Add("ConcatV2", {grads, g.input(2)}));
         return OkStatus();
       }},
      {.name = "ParallelConcat",
       .summary = "Puts tensors [1, ...] of one shape below each other.",
       .infer_shapes = ParallelConcatShape,
       .gradient = GradientMissing},
      {.name = "Pack",
       .summary = "Stacks tensors of one shape along a new axis.",
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
         Node* const parts = g.graph().AddNode("Unpack", {g.grad(0)},
                                               {{"num", g.num_inputs()}, {"axis", g.attr<int64_t>("axis")}},
                                               "", g.node().source());
         if (parts == nullptr) return g.graph().status();
         for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, parts->output(i));
         return OkStatus();
       }},
      {.name = "Unpack",
       .summary = "Gives the num slices of a tensor along an axis, which they lose.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         const PartialShape& value = s.input(0);
         if (!value.has_rank()) return OkStatus();
         WEIR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(s.attr<int64_t>("axis"), value.rank(), "axis"));
         std::vector<int64_t> dims = DimsOf(value);
         if (dims[axis] != kUnknown && dims[axis] != s.num_outputs()) {
           return InvalidArgumentError(StrCat("num is ", s.num_outputs(), ", but axis ", axis, " of value ",
                                              value.ToString(), " has length ", dims[axis]));
         }
         dims.erase(dims.begin() + axis);
         for (int i = 0; i < s.num_outputs(); ++i) WEIR_RETURN_IF_ERROR(SetOutputDims(s, i, dims));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("Pack", {GradsOrZeros(g)}, {{"axis", g.attr<int64_t>("axis")}}));
         return OkStatus();
       }},
  };
}

}  // namespace weir
