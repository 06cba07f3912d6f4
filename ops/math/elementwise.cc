// Elementwise arithmetic, functions of one number, comparison and logic.
//
// Binary ops broadcast their inputs as numpy does.
#include <string>
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

// y = f(x), element by element.
OpDef Unary(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = gradient};
}

// z = f(x, y), element by element of the broadcast inputs.
OpDef Binary(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = gradient};
}

// ---- Sums, products, quotients ----

Status AddGradient(GradientContext& g) { return SetBroadcastGradients(g, g.grad(0), g.grad(0)); }

// Of z = x / y with the division that the node itself does: dz/dx = 1/y, dz/dy = -(x/y)/y.
Status QuotientGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const std::string& divide = g.node().op_name();
  const Output y = g.input(1);
  const Output z_over_y = g.Add(divide, {g.output(0), y});
  return SetBroadcastGradients(g, g.Add(divide, {g.grad(0), y}), Neg(g, Mul(g, g.grad(0), z_over_y)));
}

// ---- Functions of one number ----

// z = dy * f'(x), expressed by y = f(x); y and dy have one shape.
OpDef FusedGrad(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = MergedShape,
          .gradient = gradient};
}

// ---- Questions ----

OpDef Comparison(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

// With incompatible_shape_error = false, tensors whose shapes do not broadcast are one unequal whole.
Status EqualityShape(ShapeInference& s) {
  if (s.attr<bool>("incompatible_shape_error")) return BroadcastBinaryShape(s);
  auto shape = ShapeInference::Broadcast(s.input(0), s.input(1));
  if (shape.ok() && s.input(0).is_fully_known() && s.input(1).is_fully_known())
    s.set_output(0, *std::move(shape));
  if (!shape.ok()) s.set_output(0, Shape());
  return OkStatus();
}

OpDef Equality(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = EqualityShape,
          .gradient = NotDifferentiable};
}

OpDef Logical(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

OpDef NumberTest(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  return {
      // ---- Sums, products, quotients ----
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

      // ---- Functions of one number ----
      Unary("Neg", "Gives -x.",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, Neg(g, g.grad(0)));
              return OkStatus();
            }),
      Unary("Square", "Gives x * x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, Mul(g, g.Constant(g.input(0).dtype(), 2), g.input(0)));
            }),
      Unary("Sqrt", "Gives the square root of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, Div(g, g.Constant(g.input(0).dtype(), 0.5), g.output(0)));
            }),
      Unary("Rsqrt", "Gives 1 / sqrt(x).",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              const Output y = g.output(0);
              return SetScaled(g, Mul(g, g.Constant(y.dtype(), -0.5), Mul(g, y, g.Add("Square", {y}))));
            }),
      Unary("Reciprocal", "Gives 1 / x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, Neg(g, g.Add("Square", {g.output(0)})));
            }),
      Unary("Exp", "Gives e to the power of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.output(0));
            }),
      Unary("Log", "Gives the natural logarithm of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              g.set_input_grad(0, Div(g, g.grad(0), g.input(0)));
              return OkStatus();
            }),
      Unary("Log1p", "Gives log(1 + x), exact for small x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              g.set_input_grad(0, Div(g, g.grad(0), Add(g, One(g, g.input(0)), g.input(0))));
              return OkStatus();
            }),
      Unary("Abs", "Gives the absolute value of x.",
            [](GradientContext& g) -> Status { return SetScaled(g, g.Add("Sign", {g.input(0)})); }),
      Unary("Sign", "Gives -1, 0 or 1 as x is negative, zero or positive.",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, ZerosLike(g, g.input(0)));
              return OkStatus();
            }),
      Unary("Floor", "Gives the largest integer that is not larger than x.", NotDifferentiable),
      Unary("Tanh", "Gives the hyperbolic tangent of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              g.set_input_grad(0, g.Add("TanhGrad", {g.output(0), g.grad(0)}));
              return OkStatus();
            }),
      Unary("Sigmoid", "Gives 1 / (1 + exp(-x)).",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              g.set_input_grad(0, g.Add("SigmoidGrad", {g.output(0), g.grad(0)}));
              return OkStatus();
            }),
      FusedGrad("TanhGrad", "Gives dy * (1 - y * y): the gradient of Tanh.",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output y = g.input(0), dy = g.input(1);
                  g.set_input_grad(0, Scale(g, -2, Mul(g, Mul(g, g.grad(0), dy), y)));
                  g.set_input_grad(1, g.Add("TanhGrad", {y, g.grad(0)}));
                  return OkStatus();
                }),
      FusedGrad("SigmoidGrad", "Gives dy * y * (1 - y): the gradient of Sigmoid.",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output y = g.input(0), dy = g.input(1);
                  const Output slope = Sub(g, One(g, y), Scale(g, 2, y));
                  g.set_input_grad(0, Mul(g, Mul(g, g.grad(0), dy), slope));
                  g.set_input_grad(1, g.Add("SigmoidGrad", {y, g.grad(0)}));
                  return OkStatus();
                }),

      // ---- Questions ----
      Comparison("Less", "Gives x < y."),
      Comparison("LessEqual", "Gives x <= y."),
      Comparison("Greater", "Gives x > y."),
      Comparison("GreaterEqual", "Gives x >= y."),
      Equality("Equal", "Gives x == y."),
      Equality("NotEqual", "Gives x != y."),
      Logical("LogicalAnd", "Gives true where x and y are."),
      Logical("LogicalOr", "Gives true where x or y is."),
      {.name = "LogicalNot",
       .summary = "Gives true where x is false.",
       .is_elementwise = true,
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      NumberTest("IsFinite", "Gives true where x is neither infinite nor NaN."),
      NumberTest("IsNan", "Gives true where x is NaN."),
  };
}

}  // namespace weir
