// Sums and products of quantized numbers, and other ranges for their results.
//
// A quantized number comes with its range: two scalars, its ends. An op on one has them as inputs, and as
// outputs 1 and 2.
#include <utility>
#include <vector>

#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// Inputs from `first` on are ends of ranges; so are outputs from `first_output` on.
Status Ranges(ShapeInference& s, int first, int first_output) {
  for (int i = first; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  for (int i = first_output; i < s.num_outputs(); ++i) s.set_output(i, PartialShape(Shape()));
  return OkStatus();
}

Status ArithmeticShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(Ranges(s, 2, 1));
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, ShapeInference::Broadcast(s.input(0), s.input(1)));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status MatMulShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(Ranges(s, 2, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(1, 2));
  const bool transpose_a = s.attr<bool>("transpose_a"), transpose_b = s.attr<bool>("transpose_b");
  const int64_t inner_a = a.dim(transpose_a ? 0 : 1), inner_b = b.dim(transpose_b ? 1 : 0);
  if (!s.MergeDims(inner_a, inner_b).ok()) {
    return InvalidArgumentError(
        StrCat("inner dimensions differ: a is ", a.ToString(), ", b is ", b.ToString()));
  }
  return SetOutputDims(s, 0, {a.dim(transpose_a ? 1 : 0), b.dim(transpose_b ? 0 : 1)});
}

Status RequantizeShape(ShapeInference& s) {
  s.set_output(0, s.input(0));
  return Ranges(s, 1, 1);
}

Status RangeShape(ShapeInference& s) { return Ranges(s, 1, 0); }

// Images [batch, height, width, channels]; each channel has a range.
absl::StatusOr<PartialShape> ImagesWithRanges(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape input, s.WithRank(0, 4));
  for (const int i : {1, 2}) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape end, s.WithRank(i, 1));
    if (s.MergeDims(end.dim(0), input.dim(3)).ok()) continue;
    return InvalidArgumentError(StrCat(s.input_name(i), " must have an element for each channel of ",
                                       input.ToString(), ", is ", end.ToString()));
  }
  return input;
}

Status RequantizePerChannelShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape input, ImagesWithRanges(s));
  s.set_output(0, std::move(input));
  return Ranges(s, 3, 1);
}

Status RangePerChannelShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(ImagesWithRanges(s).status());
  return Ranges(s, 3, 0);
}

}  // namespace

std::vector<OpDef> QuantizedMathOps() {
  return {
      {.name = "QuantizedAdd",
       .summary = "Gives x + y of quantized numbers, with broadcasting.",
       .infer_shapes = ArithmeticShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedMul",
       .summary = "Gives x * y of quantized numbers, with broadcasting.",
       .infer_shapes = ArithmeticShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedMatMul",
       .summary = "Gives the product of two matrices of quantized numbers.",
       .infer_shapes = MatMulShape,
       .gradient = NotDifferentiable},
      {.name = "Requantize",
       .summary = "Gives quantized numbers as levels of another range.",
       .infer_shapes = RequantizeShape,
       .gradient = NotDifferentiable},
      {.name = "RequantizationRange",
       .summary = "Gives the part of a range that quantized numbers use.",
       .infer_shapes = RangeShape,
       .gradient = NotDifferentiable},
      {.name = "RequantizePerChannel",
       .summary = "Gives quantized numbers, whose channels have ranges of their own, as levels of one range.",
       .infer_shapes = RequantizePerChannelShape,
       .gradient = NotDifferentiable},
      {.name = "RequantizationRangePerChannel",
       .summary = "Gives one range for quantized numbers whose channels have ranges of their own.",
       .infer_shapes = RangePerChannelShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizeDownAndShrinkRange",
       .summary = "Gives quantized numbers as levels of the part of their range that they use.",
       .infer_shapes = RequantizeShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
