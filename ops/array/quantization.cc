// Numbers rounded to those that few bits can tell apart.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The bounds `first` and the one after it of input `x`: scalars, or vectors with an element for each index of
// dimension `axis` of x, where that is not -1.
Status CheckBounds(ShapeInference& s, int x, int first, int64_t axis) {
  if (axis < -1) return InvalidArgumentError(StrCat("Axis must be at least -1. Found ", axis));
  for (const int i : {first, first + 1}) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape bound, s.WithRank(i, axis < 0 ? 0 : 1));
    if (axis < 0 || !bound.has_rank() || !s.input(x).has_rank()) continue;
    if (!s.MergeDims(bound.dim(0), s.input(x).dim(static_cast<int>(axis))).ok()) {
      return InvalidArgumentError(StrCat(s.input_name(i), " must have an element for each of dimension ",
                                         axis, " of ", s.input(x).ToString(), ", is ", bound.ToString()));
    }
  }
  return OkStatus();
}

Status CheckAxis(ShapeInference& s, int x, int64_t axis) {
  if (axis < -1) return InvalidArgumentError(StrCat("Axis must be at least -1. Found ", axis));
  if (!s.input(x).has_rank() || axis < s.input(x).rank()) return OkStatus();
  return InvalidArgumentError(StrCat("axis ", axis, " is outside of ", s.input(x).ToString()));
}

Status QuantizeShape(ShapeInference& s) {
  const int64_t axis = s.attr<int64_t>("axis");
  WEIR_RETURN_IF_ERROR(CheckAxis(s, 0, axis));
  if (s.attr<bool>("range_given")) WEIR_RETURN_IF_ERROR(CheckBounds(s, 0, 1, axis));
  if (s.num_inputs() == 4) WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  s.set_output(0, s.input(0));
  return OkStatus();
}

// Of ops whose outputs are shaped like the inputs `first`, first + 1 and so on.
Status LikeInputs(ShapeInference& s, int first) {
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, s.input(first + i));
  return OkStatus();
}

Status QuantizeGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 0, 2).status());
  WEIR_RETURN_IF_ERROR(CheckAxis(s, 1, s.attr<int64_t>("axis")));
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 1, 2, s.attr<int64_t>("axis")));
  return LikeInputs(s, 1);
}

Status VarsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 0, 1, -1));
  return UnchangedShape(s);
}

Status PerChannelShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape inputs, s.WithRankAtLeast(0, 1));
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 0, 1, inputs.has_rank() ? inputs.rank() - 1 : 0));
  return UnchangedShape(s);
}

Status VarsGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 0, 2).status());
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 1, 2, -1));
  return LikeInputs(s, 1);
}

Status PerChannelGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(MergeInputs(s, 0, 2).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape inputs, s.WithRankAtLeast(1, 1));
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 1, 2, inputs.has_rank() ? inputs.rank() - 1 : 0));
  return LikeInputs(s, 1);
}

// The ends of the range are scalars, or vectors with an element for each index of dimension `axis`.
Status QuantizeV2Shape(ShapeInference& s) {
  const int64_t axis = s.attr<int64_t>("axis");
  WEIR_RETURN_IF_ERROR(CheckAxis(s, 0, axis));
  WEIR_RETURN_IF_ERROR(CheckBounds(s, 0, 1, axis));
  s.set_output(0, s.input(0));
  PartialShape ends{Shape()};
  if (axis >= 0)
    ends = PartialShape({s.input(0).has_rank() ? s.input(0).dim(static_cast<int>(axis)) : kUnknown});
  for (int i = 1; i < s.num_outputs(); ++i) s.set_output(i, ends);
  return OkStatus();
}

// As if the numbers were not rounded.
Status StraightThrough(GradientContext& g) {
  g.set_input_grad(0, g.grad(0));
  return OkStatus();
}

// Sets the gradients of the inputs to the outputs of `op`, which takes the gradient and the inputs.
Status GradientByOp(GradientContext& g, const std::string& op, AttrMap attrs) {
  std::vector<InputArg> inputs = {g.grad(0)};
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  Node* const node = g.graph().AddNode(op, std::move(inputs), std::move(attrs), "", g.node().source());
  for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, node == nullptr ? Output() : node->output(i));
  return OkStatus();
}

Status QuantizeV4Gradient(GradientContext& g) {
  return GradientByOp(g, "QuantizeAndDequantizeV4Grad", {{"axis", g.attr<int64_t>("axis")}});
}

AttrMap BitsOf(const GradientContext& g) {
  return {{"num_bits", g.attr<int64_t>("num_bits")}, {"narrow_range", g.attr<bool>("narrow_range")}};
}

Status ArgsGradient(GradientContext& g) {
  AttrMap attrs = BitsOf(g);
  attrs.emplace("min", g.attr<float>("min"));
  attrs.emplace("max", g.attr<float>("max"));
  return GradientByOp(g, "FakeQuantWithMinMaxArgsGradient", std::move(attrs));
}
Status VarsGradient(GradientContext& g) {
  return GradientByOp(g, "FakeQuantWithMinMaxVarsGradient", BitsOf(g));
}
Status PerChannelGradient(GradientContext& g) {
  return GradientByOp(g, "FakeQuantWithMinMaxVarsPerChannelGradient", BitsOf(g));
}

}  // namespace

std::vector<OpDef> QuantizationOps() {
  return {
      {.name = "QuantizeV2",
       .summary = "Gives the levels of numbers: integers that divide a range of them.",
       .infer_shapes = QuantizeV2Shape,
       .gradient = NotDifferentiable},
      {.name = "Dequantize",
       .summary = "Gives the numbers that levels of a range stand for.",
       .infer_shapes = QuantizeV2Shape,
       .gradient = NotDifferentiable},
      {.name = "QuantizeAndDequantizeV2",
       .summary = "Rounds numbers to 2^num_bits levels over the range given, or that of the input.",
       .infer_shapes = QuantizeShape,
       .gradient = StraightThrough},
      {.name = "QuantizeAndDequantizeV3",
       .summary = "Rounds numbers to 2^num_bits levels, num_bits being an input.",
       .infer_shapes = QuantizeShape,
       .gradient = StraightThrough},
      {.name = "QuantizeAndDequantizeV4",
       .summary = "Rounds numbers to 2^num_bits levels; a gradient flows inside of the range only.",
       .infer_shapes = QuantizeShape,
       .gradient = QuantizeV4Gradient},
      {.name = "QuantizeAndDequantizeV4Grad",
       .summary = "Gives the gradient of QuantizeAndDequantizeV4.",
       .infer_shapes = QuantizeGradShape,
       .gradient = GradientMissing},
      {.name = "FakeQuantWithMinMaxArgs",
       .summary = "Rounds numbers to 2^num_bits levels from min to max, moved so that zero is one of them.",
       .infer_shapes = UnchangedShape,
       .gradient = ArgsGradient},
      {.name = "FakeQuantWithMinMaxArgsGradient",
       .summary = "Gives the gradient of FakeQuantWithMinMaxArgs.",
       .infer_shapes = MergedShape,
       .gradient = NotDifferentiable},
      {.name = "FakeQuantWithMinMaxVars",
       .summary = "Rounds numbers to 2^num_bits levels between bounds that are inputs.",
       .infer_shapes = VarsShape,
       .gradient = VarsGradient},
      {.name = "FakeQuantWithMinMaxVarsGradient",
       .summary = "Gives the gradients of FakeQuantWithMinMaxVars.",
       .infer_shapes = VarsGradShape,
       .gradient = NotDifferentiable},
      {.name = "FakeQuantWithMinMaxVarsPerChannel",
       .summary = "Rounds numbers to 2^num_bits levels between bounds for each index of the last dimension.",
       .infer_shapes = PerChannelShape,
       .gradient = PerChannelGradient},
      {.name = "FakeQuantWithMinMaxVarsPerChannelGradient",
       .summary = "Gives the gradients of FakeQuantWithMinMaxVarsPerChannel.",
       .infer_shapes = PerChannelGradShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
