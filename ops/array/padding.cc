// Ops that put more elements around a tensor.
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

// How much longer the result is at both ends than an input of `length`; an error when paddings do not fit.
using PaddedLength = absl::StatusOr<int64_t> (*)(ShapeInference& s, int64_t length, int64_t before,
                                                 int64_t after);

Status ShapeWithPaddings(ShapeInference& s, PaddedLength padded_length) {
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
      if (input.dim(i) == kUnknown) continue;
      WEIR_ASSIGN_OR_RETURN(dims[i], padded_length(s, input.dim(i), before, after));
    }
  }
  return SetOutputDims(s, 0, dims);
}

absl::StatusOr<int64_t> Longer(ShapeInference&, int64_t length, int64_t before, int64_t after) {
  return AddDims(length, AddDims(before, after));
}

// The longest padding that `length` elements can be mirrored into.
int64_t LongestMirror(ShapeInference& s, int64_t length) {
  return s.attr<std::string>("mode") == "REFLECT" ? length - 1 : length;
}

absl::StatusOr<int64_t> LongerByMirror(ShapeInference& s, int64_t length, int64_t before, int64_t after) {
  const int64_t most = LongestMirror(s, length);
  if ((before > most && before > 0) || (after > most && after > 0)) {
    return InvalidArgumentError(StrCat("paddings ", before, " and ", after, " are too long for mode ",
                                       s.attr<std::string>("mode"), " and a dimension of ", length));
  }
  return Longer(s, length, before, after);
}

absl::StatusOr<int64_t> ShorterByMirror(ShapeInference& s, int64_t length, int64_t before, int64_t after) {
  const int64_t rest = length - before < 0 ? -1 : length - before - after;
  if (rest < 0 || (before > LongestMirror(s, rest) && before > 0) ||
      (after > LongestMirror(s, rest) && after > 0)) {
    return InvalidArgumentError(StrCat("paddings ", before, " and ", after, " are too long for mode ",
                                       s.attr<std::string>("mode"), " and a padded dimension of ", length));
  }
  return rest;
}

Status PaddedShape(ShapeInference& s) { return ShapeWithPaddings(s, Longer); }

// The gradient without what was padded.
Status PadGradient(GradientContext& g) {
  const Output shape = Cast(g, ShapeOf(g, g.input(0)), g.input(1).dtype());
  const Output zero_one = g.Integers({0, 1});
  // The first column of paddings: where the input begins in the output.
  const Output begin = g.Add("StridedSlice", {g.input(1), g.Integers({0, 0}), zero_one, g.Integers({1, 1})},
                             {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}});
  g.set_input_grad(0, g.Add("Slice", {g.grad(0), begin, shape}));
  return OkStatus();
}

Status MirrorWith(GradientContext& g, const char* op) {
  g.set_input_grad(0, g.Add(op, {g.grad(0), g.input(1)}, {{"mode", g.attr<std::string>("mode")}}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> PaddingOps() {
  return {
      {.name = "Pad",
       .summary = "Puts paddings[i][0] zeros before and paddings[i][1] behind every dimension i.",
       .infer_shapes = PaddedShape,
       .gradient = PadGradient},
      {.name = "PadV2",
       .summary =
           "Puts a constant paddings[i][0] times before and paddings[i][1] times behind every dimension i.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         return PaddedShape(s);
       },
       .gradient = PadGradient},
      {.name = "MirrorPad",
       .summary = "Pads with the mirrored input; mode SYMMETRIC repeats the element at the border.",
       .infer_shapes = [](ShapeInference& s) { return ShapeWithPaddings(s, LongerByMirror); },
       .gradient = [](GradientContext& g) { return MirrorWith(g, "MirrorPadGrad"); }},
      {.name = "MirrorPadGrad",
       .summary = "Adds what MirrorPad padded back to the elements it was mirrored from.",
       .infer_shapes = [](ShapeInference& s) { return ShapeWithPaddings(s, ShorterByMirror); },
       .gradient = [](GradientContext& g) { return MirrorWith(g, "MirrorPad"); }},
  };
}

}  // namespace weir
