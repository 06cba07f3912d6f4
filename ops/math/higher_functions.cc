// Bessel functions, and integrals that have no simpler form. Gradients are TensorFlow's, also where these are
// chosen: that of BesselI1 at 0 is 1.
#include <numbers>
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Output At(GradientContext& g, const char* function) { return g.Add(function, {g.input(0)}); }
Output Sign(GradientContext& g) { return At(g, "Sign"); }
Output Quotient(GradientContext& g) { return Div(g, g.output(0), g.input(0)); }
Output Reciprocal(GradientContext& g) { return At(g, "Reciprocal"); }

// `slope` but for x = 0, where its formula divides by 0.
Output ExceptAtZero(GradientContext& g, double at_zero, Output slope) {
  const Output x = g.input(0);
  return Select(g, g.Add("Equal", {x, Zero(g, x)}), g.Constant(x.dtype(), at_zero), slope);
}

// pi x^2 / 2
Output FresnelPhase(GradientContext& g) { return Scale(g, std::numbers::pi / 2, At(g, "Square")); }

std::vector<OpDef> BesselIOps() {
  return {
      Unary("BesselI0", "Gives the modified Bessel function of the first kind of order 0.",
            [](GradientContext& g) -> Status { return SetScaled(g, At(g, "BesselI1")); }),
      Unary("BesselI0e", "Gives exp(-|x|) times BesselI0.",
            [](GradientContext& g) -> Status {
              return SetScaled(g, Sub(g, At(g, "BesselI1e"), Mul(g, Sign(g), g.output(0))));
            }),
      Unary("BesselI1", "Gives the modified Bessel function of the first kind of order 1.",
            [](GradientContext& g) -> Status {
              return SetScaled(g, ExceptAtZero(g, 1, Sub(g, At(g, "BesselI0"), Quotient(g))));
            }),
      Unary("BesselI1e", "Gives exp(-|x|) times BesselI1.",
            [](GradientContext& g) -> Status {
              const Output rest = Mul(g, g.output(0), Add(g, Sign(g), Reciprocal(g)));
              return SetScaled(g, ExceptAtZero(g, 0.5, Sub(g, At(g, "BesselI0e"), rest)));
            }),
  };
}

std::vector<OpDef> BesselKOps() {
  return {
      Unary("BesselK0", "Gives the modified Bessel function of the second kind of order 0.",
            [](GradientContext& g) -> Status { return SetScaled(g, Neg(g, At(g, "BesselK1"))); }),
      Unary(
          "BesselK0e", "Gives exp(x) times BesselK0.",
          [](GradientContext& g) -> Status { return SetScaled(g, Sub(g, g.output(0), At(g, "BesselK1e"))); }),
      Unary("BesselK1", "Gives the modified Bessel function of the second kind of order 1.",
            [](GradientContext& g) -> Status {
              return SetScaled(g, Neg(g, Add(g, At(g, "BesselK0"), Quotient(g))));
            }),
      Unary("BesselK1e", "Gives exp(x) times BesselK1.",
            [](GradientContext& g) -> Status {
              const Output scaled = Mul(g, g.output(0), Sub(g, One(g, g.input(0)), Reciprocal(g)));
              return SetScaled(g, Sub(g, scaled, At(g, "BesselK0e")));
            }),
  };
}

std::vector<OpDef> BesselJAndYOps() {
  return {
      Unary("BesselJ0", "Gives the Bessel function of the first kind of order 0.",
            [](GradientContext& g) -> Status { return SetScaled(g, Neg(g, At(g, "BesselJ1"))); }),
      Unary("BesselJ1", "Gives the Bessel function of the first kind of order 1.",
            [](GradientContext& g) -> Status {
              return SetScaled(g, ExceptAtZero(g, 0.5, Sub(g, At(g, "BesselJ0"), Quotient(g))));
            }),
      Unary("BesselY0", "Gives the Bessel function of the second kind of order 0.",
            [](GradientContext& g) -> Status { return SetScaled(g, Neg(g, At(g, "BesselY1"))); }),
      Unary(
          "BesselY1", "Gives the Bessel function of the second kind of order 1.",
          [](GradientContext& g) -> Status { return SetScaled(g, Sub(g, At(g, "BesselY0"), Quotient(g))); }),
  };
}

std::vector<OpDef> IntegralOps() {
  return {
      Unary("Dawsn", "Gives exp(-x^2) times the integral of exp(t^2) from 0 to x.",
            [](GradientContext& g) -> Status {
              const Output product = Mul(g, g.input(0), g.output(0));
              return SetScaled(g, Sub(g, One(g, g.input(0)), Scale(g, 2, product)));
            }),
      Unary("Expint", "Gives the integral of exp(t) / t from -infinity to x.",
            [](GradientContext& g) -> Status { return SetScaled(g, Div(g, At(g, "Exp"), g.input(0))); }),
      Unary("FresnelCos", "Gives the integral of cos(pi t^2 / 2) from 0 to x.",
            [](GradientContext& g) -> Status { return SetScaled(g, g.Add("Cos", {FresnelPhase(g)})); }),
      Unary("FresnelSin", "Gives the integral of sin(pi t^2 / 2) from 0 to x.",
            [](GradientContext& g) -> Status { return SetScaled(g, g.Add("Sin", {FresnelPhase(g)})); }),
      Unary("Spence", "Gives the integral of log(t) / (1 - t) from 1 to x.",
            [](GradientContext& g) -> Status {
              const Output x = g.input(0), one = One(g, x);
              const Output slope = Div(g, At(g, "Log"), Sub(g, one, x));
              return SetScaled(g, Select(g, g.Add("Equal", {x, one}), g.Constant(x.dtype(), -1), slope));
            }),
  };
}

}  // namespace

std::vector<OpDef> HigherFunctionsOps() {
  std::vector<OpDef> all;
  for (const auto& part : {BesselIOps(), BesselKOps(), BesselJAndYOps(), IntegralOps()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace weir
