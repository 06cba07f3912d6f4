// Elementwise arithmetic of several numbers. Binary ops broadcast their inputs as numpy does.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Status AddGradient(GradientContext& g) { return SetBroadcastGradients(g, g.grad(0), g.grad(0)); }

// Of z = x / y with the division that the node itself does: dz/dx = 1/y, dz/dy = -(x/y)/y.
Status QuotientGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const std::string& divide = g.node().op_name();
  const Output y = g.input(1);
  const Output z_over_y = g.Add(divide, {g.output(0), y});
  return SetBroadcastGradients(g, g.Add(divide, {g.grad(0), y}), Neg(g, Mul(g, g.grad(0), z_over_y)));
}

// Of Igamma, whose derivative by x is the density of the gamma distribution, here as TensorFlow computes it;
// `grad` flows into it.
Status IncompleteGammaGradient(GradientContext& g, Output grad) {
  const Output a = g.input(0), x = g.input(1);
  // IgammaGradA takes float and double only.
  const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Output by_a = Cast(g, g.Add("IgammaGradA", {Cast(g, a, wide), Cast(g, x, wide)}), x.dtype());
  const Output power = Mul(g, Sub(g, a, One(g, a)), g.Add("Log", {x}));
  const Output by_x = g.Add("Exp", {Sub(g, Sub(g, power, x), g.Add("Lgamma", {a}))});
  return SetBroadcastGradients(g, Mul(g, by_a, grad), Mul(g, by_x, grad));
}

// 1 where x is not 0, else 0.
Output IsNotZero(GradientContext& g, Output x) {
  return Cast(g, g.Add("NotEqual", {x, Zero(g, x)}), x.dtype());
}

// Limits are scalars, or have the shape of what they limit.
Status ClipShape(ShapeInference& s) {
  PartialShape shape = s.input(0);
  for (int i = 1; i < 3; ++i) {
    if (!s.input(i).has_rank() || s.input(i).rank() == 0) continue;
    absl::StatusOr<PartialShape> merged = shape.MergeWith(s.input(i));
    if (!merged.ok()) {
      return InvalidArgumentError(StrCat(s.input_name(i), " must be a scalar or have the shape of t, ",
                                         shape.ToString(), ", is ", s.input(i).ToString()));
    }
    shape = *std::move(merged);
  }
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status ClipGradient(GradientContext& g) {
  const Output t = g.input(0);
  const Output zero = Zero(g, t);
  const Output is_low = g.Add("Less", {t, g.input(1)}), is_high = g.Add("Greater", {t, g.input(2)});
  const Output is_clipped = g.Add("LogicalOr", {is_low, is_high});
  g.set_input_grad(0, Select(g, is_clipped, zero, g.grad(0)));
  g.set_input_grad(1, UndoBroadcast(g, Select(g, is_low, g.grad(0), zero), {t, g.input(1)}, 1));
  g.set_input_grad(2, UndoBroadcast(g, Select(g, is_high, g.grad(0), zero), {t, g.input(2)}, 1));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  return {
      Binary("Add", "Gives x + y; strings are joined.", AddGradient),
      Binary("AddV2", "Gives x + y.", AddGradient),
      {.name = "AddN",
       .summary = "Adds tensors of one shape.",
       .is_elementwise = true,
       .infer_shapes = MergedShape,
       .gradient = [](GradientContext& g) -> Status {
         for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, g.grad(0));
         return OkStatus();
       }},
      Binary("Sub", "Gives x - y.",
             [](GradientContext& g) -> Status {
               return SetBroadcastGradients(g, g.grad(0), Neg(g, g.grad(0)));
             }),
      Binary("Mul", "Gives x * y.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               return SetBroadcastGradients(g, Mul(g, g.grad(0), g.input(1)), Mul(g, g.grad(0), g.input(0)));
             }),
      Binary("Div", "Gives x / y, for integers rounded towards zero.", QuotientGradient),
      Binary("RealDiv", "Gives x / y.", QuotientGradient),
      Binary("DivNoNan", "Gives x / y, and 0 where y is 0.", QuotientGradient),
      Binary("FloorDiv", "Gives x / y rounded towards negative infinity.", NotDifferentiable),
      Binary("FloorMod", "Gives x - floor(x / y) * y, which has the sign of y.",
             [](GradientContext& g) -> Status {
               const Output quotient = g.Add("FloorDiv", {g.input(0), g.input(1)});
               return SetBroadcastGradients(g, g.grad(0), Neg(g, Mul(g, g.grad(0), quotient)));
             }),
      Binary("SquaredDifference", "Gives (x - y) * (x - y), with complex numbers (x - y) * conj(x - y).",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               const Output twice = Scale(g, 2, Sub(g, g.input(0), g.input(1)));
               const Output x = Mul(g, g.grad(0), twice);
               return SetBroadcastGradients(g, x, Neg(g, x));
             }),
      Binary("MulNoNan", "Gives x * y, and 0 where y is 0 whatever x is.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               return SetBroadcastGradients(g, g.Add("MulNoNan", {g.grad(0), g.input(1)}),
                                            g.Add("MulNoNan", {g.input(0), g.grad(0)}));
             }),
      Binary("TruncateDiv", "Gives x / y rounded towards zero.", NotDifferentiable),
      Binary("TruncateMod", "Gives the remainder of x / y rounded towards zero, which has the sign of x.",
             NotDifferentiable),
      Binary("Mod", "Gives the remainder of x / y rounded towards zero, which has the sign of x.",
             NotDifferentiable),
      Binary("Xdivy", "Gives x / y, and 0 where x is 0 whatever y is.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               const Output x = g.input(0), y = g.input(1);
               const Output by_x = g.Add("Xdivy", {IsNotZero(g, x), y});
               const Output by_y = g.Add("Xdivy", {Neg(g, x), g.Add("Square", {y})});
               return SetBroadcastGradients(g, Mul(g, g.grad(0), by_x), Mul(g, g.grad(0), by_y));
             }),
      Binary("Xlogy", "Gives x * log(y), and 0 where x is 0 whatever y is.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               const Output x = g.input(0), y = g.input(1);
               const Output by_x = g.Add("Xlogy", {IsNotZero(g, x), y});
               return SetBroadcastGradients(g, Mul(g, g.grad(0), by_x),
                                            Mul(g, g.grad(0), g.Add("Xdivy", {x, y})));
             }),
      Binary("Xlog1py", "Gives x * log(1 + y), and 0 where x is 0 whatever y is.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               const Output x = g.input(0), y = g.input(1);
               const Output by_x = g.Add("Xlog1py", {IsNotZero(g, x), y});
               const Output by_y = g.Add("Xdivy", {x, Add(g, y, One(g, y))});
               return SetBroadcastGradients(g, Mul(g, g.grad(0), by_x), Mul(g, g.grad(0), by_y));
             }),
      Binary("Atan2", "Gives the angle between the x axis and the point (x, y), in (-pi, pi].",
             [](GradientContext& g) -> Status {
               const Output y = g.input(0), x = g.input(1);
               const Output squares = Add(g, g.Add("Square", {x}), g.Add("Square", {y}));
               const Output scaled = Div(g, g.grad(0), squares);
               return SetBroadcastGradients(g, Mul(g, x, scaled), Neg(g, Mul(g, y, scaled)));
             }),
      Binary("NextAfter", "Gives the number next to x1 in the direction of x2.",
             [](GradientContext& g) -> Status {
               return SetBroadcastGradients(g, g.grad(0), ZerosLike(g, g.grad(0)));
             }),
      Binary("Zeta", "Gives Hurwitz's zeta function, the sum of (q + k)^-x over k = 0, 1, 2...",
             [](GradientContext& g) -> Status {  // of q only, as TensorFlow
               const Output x = g.input(0), q = g.input(1);
               const Output slope = Neg(g, Mul(g, x, g.Add("Zeta", {Add(g, x, One(g, x)), q})));
               return SetBroadcastGradients(g, Output(), Mul(g, slope, g.grad(0)));
             }),
      Binary("Polygamma", "Gives the a-th derivative of Digamma at x.",
             [](GradientContext& g) -> Status {  // of x only, as TensorFlow
               const Output a = g.input(0), x = g.input(1);
               const Output slope = g.Add("Polygamma", {Add(g, a, One(g, a)), x});
               return SetBroadcastGradients(g, Output(), Mul(g, slope, g.grad(0)));
             }),
      Binary("Igamma", "Gives the integral of t^(a-1) exp(-t) from 0 to x, as a part of that to infinity.",
             [](GradientContext& g) -> Status { return IncompleteGammaGradient(g, g.grad(0)); }),
      Binary("Igammac", "Gives 1 - Igamma, exact where that is small.",
             [](GradientContext& g) -> Status { return IncompleteGammaGradient(g, Neg(g, g.grad(0))); }),
      Binary("IgammaGradA", "Gives the derivative of Igamma by a.", GradientMissing),
      {.name = "ClipByValue",
       .summary = "Gives t, at least clip_value_min and at most clip_value_max; these are scalars or as t.",
       .infer_shapes = ClipShape,
       .gradient = ClipGradient},
      Binary("Maximum", "Gives the larger of x and y; NaN if one is.",
             [](GradientContext& g) -> Status {
               const Output x_wins = g.Add("GreaterEqual", {g.input(0), g.input(1)});
               const Output zero = Zero(g, g.grad(0));
               return SetBroadcastGradients(g, Select(g, x_wins, g.grad(0), zero),
                                            Select(g, x_wins, zero, g.grad(0)));
             }),
      Binary("Minimum", "Gives the smaller of x and y; NaN if one is.",
             [](GradientContext& g) -> Status {
               const Output x_wins = g.Add("LessEqual", {g.input(0), g.input(1)});
               const Output zero = Zero(g, g.grad(0));
               return SetBroadcastGradients(g, Select(g, x_wins, g.grad(0), zero),
                                            Select(g, x_wins, zero, g.grad(0)));
             }),
      Binary("Pow", "Gives x to the power of y.",
             [](GradientContext& g) -> Status {
               WEIR_RETURN_IF_ERROR(CheckReal(g));
               const Output x = g.input(0), y = g.input(1);
               const Output slope = Mul(g, y, g.Add("Pow", {x, Sub(g, y, One(g, y))}));
               // log x where it is a real number; elsewhere z does not depend smoothly on y.
               const Output is_positive = g.Add("Greater", {x, Zero(g, x)});
               const Output safe = Select(g, is_positive, x, One(g, x));
               const Output log = g.Add("Log", {safe});
               return SetBroadcastGradients(g, Mul(g, g.grad(0), slope),
                                            Mul(g, g.grad(0), Mul(g, g.output(0), log)));
             }),
  };
}

}  // namespace weir
