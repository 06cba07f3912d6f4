// Elementwise functions of one number, and those of their gradients that are one op.
#include <cmath>
#include <numbers>
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

Status SetGrad(GradientContext& g, Output gradient) {
  g.set_input_grad(0, gradient);
  return OkStatus();
}

// 1 - x * x
Output OneMinusSquare(GradientContext& g) {
  return Sub(g, One(g, g.input(0)), g.Add("Square", {g.input(0)}));
}

// The derivative of erf is 2 / sqrt(pi) * exp(-x * x).
constexpr double kErfSlope = 2 * std::numbers::inv_sqrtpi;
Output Bell(GradientContext& g) { return g.Add("Exp", {Neg(g, g.Add("Square", {g.input(0)}))}); }

constexpr double kHalfRootOfPi = 0.5 / std::numbers::inv_sqrtpi;
constexpr double kRootOfTwoPi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;

// Of z = -dy * y * y.
Status InverseGradGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output y = g.input(0), dy = g.input(1);
  g.set_input_grad(0, Mul(g, Mul(g, Scale(g, -2, g.grad(0)), dy), y));
  g.set_input_grad(1, g.Add("ReciprocalGrad", {y, g.grad(0)}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> FunctionsOps() {
  return {
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
      Unary("Sqrt", "Gives the square root of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, g.Add("SqrtGrad", {g.output(0), g.grad(0)}));
            }),
      Unary("Rsqrt", "Gives 1 / sqrt(x).",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, g.Add("RsqrtGrad", {g.output(0), g.grad(0)}));
            }),
      Unary("Reciprocal", "Gives 1 / x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, g.Add("ReciprocalGrad", {g.output(0), g.grad(0)}));
            }),
      Unary("Inv", "Gives 1 / x: the old name of Reciprocal.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, g.Add("InvGrad", {g.output(0), g.grad(0)}));
            }),
      Unary("Floor", "Gives the largest integer that is not larger than x.", NotDifferentiable),
      Unary("Ceil", "Gives the smallest integer that is not smaller than x.", NotDifferentiable),
      Unary("Round", "Gives the nearest integer, of two the even one.", NotDifferentiable),
      Unary("Rint", "Gives the nearest integer, of two the even one.", NotDifferentiable),
      Unary("Expm1", "Gives exp(x) - 1, exact for small x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.Add("Exp", {g.input(0)}));
            }),
      Unary("Sin", "Gives the sine of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.Add("Cos", {g.input(0)}));
            }),
      Unary("Cos", "Gives the cosine of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, Neg(g, g.Add("Sin", {g.input(0)})));
            }),
      Unary("Tan", "Gives the tangent of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.Add("Square", {g.Add("Reciprocal", {g.Add("Cos", {g.input(0)})})}));
            }),
      Unary("Asin", "Gives the angle in [-pi/2, pi/2] whose sine is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Div(g, g.grad(0), g.Add("Sqrt", {OneMinusSquare(g)})));
            }),
      Unary("Acos", "Gives the angle in [0, pi] whose cosine is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Neg(g, Div(g, g.grad(0), g.Add("Sqrt", {OneMinusSquare(g)}))));
            }),
      Unary("Atan", "Gives the angle in (-pi/2, pi/2) whose tangent is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Div(g, g.grad(0), Add(g, One(g, g.input(0)), g.Add("Square", {g.input(0)}))));
            }),
      Unary("Sinh", "Gives the hyperbolic sine of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.Add("Cosh", {g.input(0)}));
            }),
      Unary("Cosh", "Gives the hyperbolic cosine of x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetScaled(g, g.Add("Sinh", {g.input(0)}));
            }),
      Unary("Asinh", "Gives the number whose hyperbolic sine is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Div(g, g.grad(0), g.Add("Cosh", {g.output(0)})));
            }),
      Unary("Acosh", "Gives the number, not negative, whose hyperbolic cosine is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Div(g, g.grad(0), g.Add("Sinh", {g.output(0)})));
            }),
      Unary("Atanh", "Gives the number whose hyperbolic tangent is x.",
            [](GradientContext& g) -> Status {
              WEIR_RETURN_IF_ERROR(CheckReal(g));
              return SetGrad(g, Div(g, g.grad(0), OneMinusSquare(g)));
            }),
      Unary("Erf", "Gives the error function of x.",
            [](GradientContext& g) -> Status { return SetScaled(g, Scale(g, kErfSlope, Bell(g))); }),
      Unary("Erfc", "Gives 1 - erf(x), exact for large x.",
            [](GradientContext& g) -> Status { return SetScaled(g, Scale(g, -kErfSlope, Bell(g))); }),
      Unary("Erfinv", "Gives the number whose error function is x, which is in [-1, 1].",
            [](GradientContext& g) -> Status {
              const Output slope = g.Add("Exp", {g.Add("Square", {g.output(0)})});
              return SetScaled(g, Scale(g, kHalfRootOfPi, slope));
            }),
      Unary("Ndtri", "Gives the number below which a standard normal variable lies with probability x.",
            [](GradientContext& g) -> Status {
              // The reciprocal of the normal density: sqrt(2 pi) * exp(y * y / 2).
              const Output exponent = Scale(g, 0.5, g.Add("Square", {g.output(0)}));
              return SetScaled(g, Scale(g, kRootOfTwoPi, g.Add("Exp", {exponent})));
            }),
      Unary("Lgamma", "Gives the logarithm of the absolute value of the gamma function of x.",
            [](GradientContext& g) -> Status { return SetScaled(g, g.Add("Digamma", {g.input(0)})); }),
      Unary("Digamma", "Gives the derivative of Lgamma.",
            [](GradientContext& g) -> Status {
              // Polygamma takes float and double only.
              const Output x = g.input(0);
              const DType wide = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
              const Output slope = g.Add("Polygamma", {g.Constant(wide, 1), Cast(g, x, wide)});
              return SetScaled(g, Cast(g, slope, x.dtype()));
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
      FusedGrad("SqrtGrad", "Gives dy * 0.5 / y: the gradient of Sqrt.",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output quotient = Div(g, g.grad(0), g.input(0));
                  g.set_input_grad(0, Neg(g, Mul(g, quotient, g.output(0))));
                  g.set_input_grad(1, Scale(g, 0.5, quotient));
                  return OkStatus();
                }),
      FusedGrad("RsqrtGrad", "Gives dy * -0.5 * y^3: the gradient of Rsqrt.",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output y = g.input(0), dy = g.input(1);
                  g.set_input_grad(0, Mul(g, Mul(g, Scale(g, -1.5, g.grad(0)), dy), g.Add("Square", {y})));
                  g.set_input_grad(1, g.Add("RsqrtGrad", {y, g.grad(0)}));
                  return OkStatus();
                }),
      FusedGrad("ReciprocalGrad", "Gives -dy * y * y: the gradient of Reciprocal.", InverseGradGradient),
      FusedGrad("InvGrad", "Gives -dy * y * y: the gradient of Inv.", InverseGradGradient),
  };
}

}  // namespace weir
