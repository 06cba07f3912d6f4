// Colours of images.
#include <array>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/image/image_gradients.h"
#include "ops/image/image_shapes.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The last dimension is 3.
Status ColorShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape images, s.WithRankAtLeast(0, 1));
  if (!images.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(images);
  if (dims.back() != kUnknown && dims.back() != 3) {
    return InvalidArgumentError(
        StrCat("Dimension must be 3 but is ", dims.back(), ": ", images.ToString(), " has other colors"));
  }
  dims.back() = 3;
  return SetOutputDims(s, 0, dims);
}

// Images [..., height, width, channels] and a scalar.
Status AdjustedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape images, s.WithRankAtLeast(0, 3));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  s.set_output(0, images);
  return OkStatus();
}

// ---- the gradient of RGBToHSV ----

using Color = std::array<Output, 3>;

// Channel i of [..., 3], with its dimension kept.
Output Channel(GradientContext& g, Output image, int i) {
  return g.Add("GatherV2", {image, g.Integers({i}), g.Constant(DType::kInt32, -1)});
}

Color Channels(GradientContext& g, Output image) {
  return {Channel(g, image, 0), Channel(g, image, 1), Channel(g, image, 2)};
}

// 1 / x, and 0 where x is 0.
Output SafeInverse(GradientContext& g, Output x) {
  return g.Add("DivNoNan", {g.Constant(g.input(0).dtype(), 1), x});
}

// Which channel is the largest, and which the smallest: 1 and 0. Of equal ones red comes before green, and
// green before blue, as the largest; the other way round as the smallest.
struct Order {
  Color largest, smallest;
};

Order OrderOf(GradientContext& g, const Color& c) {
  const DType dtype = g.input(0).dtype();
  const auto both = [&](const char* first, Output a, const char* second, Output b, Output x) {
    return formulas::Cast(g, g.Add("LogicalAnd", {g.Add(first, {x, a}), g.Add(second, {x, b})}), dtype);
  };
  return {.largest = {both("GreaterEqual", c[1], "GreaterEqual", c[2], c[0]),
                      both("Greater", c[0], "GreaterEqual", c[2], c[1]),
                      both("Greater", c[0], "Greater", c[1], c[2])},
          .smallest = {both("Less", c[1], "Less", c[2], c[0]), both("LessEqual", c[0], "Less", c[2], c[1]),
                       both("LessEqual", c[0], "LessEqual", c[1], c[2])}};
}

// With M the largest channel, m the smallest and r = M - m, where the hue in turns is
//   k/3 + (next - after) / 6r, M being channel k, and next and after the two that follow it in the circle:
//   dV/dM = 1;  dS/dM = m / M^2, dS/dm = -1 / M;
//   dH/dx = (dnext/dx - dafter/dx) / 6r - (next - after) (dM/dx - dm/dx) / 6r^2.
Status HsvGradient(GradientContext& g) {
  using namespace formulas;
  const Color rgb = Channels(g, g.input(0)), dy = Channels(g, g.grad(0));
  const Order order = OrderOf(g, rgb);
  const auto pick = [&](const Color& weights, const Color& of) {
    return Add(g, Add(g, Mul(g, weights[0], of[0]), Mul(g, weights[1], of[1])), Mul(g, weights[2], of[2]));
  };
  const Output largest = pick(order.largest, rgb), smallest = pick(order.smallest, rgb);
  const Output inverse = SafeInverse(g, largest);
  const DType dtype = g.input(0).dtype();
  const auto is_positive = [&](Output x) {
    return Cast(g, g.Add("Greater", {x, g.Constant(dtype, 0)}), dtype);
  };
  // Without light there is no hue to change.
  const Output range = Mul(g, SafeInverse(g, Sub(g, largest, smallest)), is_positive(largest));
  const Output next = pick(order.largest, {rgb[1], rgb[2], rgb[0]});
  const Output after = pick(order.largest, {rgb[2], rgb[0], rgb[1]});
  const Output slope = Mul(g, Sub(g, next, after), Mul(g, range, range));
  const Output saturation_of_largest = Mul(g, smallest, Mul(g, inverse, inverse));
  std::vector<Output> result;
  for (int i = 0; i < 3; ++i) {
    const Output is_largest = order.largest[i], is_smallest = order.smallest[i];
    // Channel i comes next to the one before it, and after the one after it.
    const Output circle = Sub(g, order.largest[(i + 2) % 3], order.largest[(i + 1) % 3]);
    const Output hue = Mul(g, g.Constant(dtype, 1.0 / 6),
                           Sub(g, Mul(g, circle, range), Mul(g, slope, Sub(g, is_largest, is_smallest))));
    // A channel that is 0 gets none of the saturation's, as in TensorFlow.
    const Output saturation =
        Mul(g, is_positive(rgb[i]),
            Sub(g, Mul(g, is_largest, saturation_of_largest), Mul(g, is_smallest, inverse)));
    const Color slopes = {hue, saturation, is_largest};
    result.push_back(pick(slopes, dy));
  }
  g.set_input_grad(0, g.Add("ConcatV2", {InputArg(result), InputArg(g.Constant(DType::kInt32, -1))}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ColorsOps() {
  return {
      {.name = "RGBToHSV",
       .summary = "Gives hue, saturation and value of red, green and blue; all are in [0, 1].",
       .infer_shapes = ColorShape,
       .gradient = HsvGradient},
      {.name = "HSVToRGB",
       .summary = "Gives red, green and blue of hue, saturation and value; all are in [0, 1].",
       .infer_shapes = ColorShape,
       .gradient = NotDifferentiable},
      {.name = "AdjustContrastv2",
       .summary = "Multiplies each pixel's distance from the mean of its image's channel.",
       .infer_shapes = AdjustedShape,
       .gradient = RefusedGradient},
      {.name = "AdjustHue",
       .summary = "Adds to the hue of colors, in turns.",
       .infer_shapes = AdjustedShape,
       .gradient = RefusedGradient},
      {.name = "AdjustSaturation",
       .summary = "Multiplies the saturation of colors.",
       .infer_shapes = AdjustedShape,
       .gradient = RefusedGradient},
  };
}

}  // namespace weir
