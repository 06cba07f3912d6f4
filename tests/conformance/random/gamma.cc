// The gamma distribution: samples in random_test.cc, and how fast they move with its parameter.
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const int64_t kWide = int64_t{1} << 40;

// The logarithmic derivative of the gamma function, from far out by Stirling's series.
double LogGammaSlope(double a) {
  double sum = 0;
  for (; a < 40; a += 1) sum -= 1 / a;
  return sum + std::log(a) - 1 / (2 * a) - 1 / (12 * a * a) + 1 / (120 * std::pow(a, 4)) -
         1 / (252 * std::pow(a, 6));
}

// -(dP/da) / (dP/dx) of P(x) = integral from 0 to x of t^(a-1) e^-t dt / Gamma(a). With t = x e^s that is an
// integral over s < 0, or, since the one over all s is 0, one over s > 0. Simpson's rule.
double SampleSlope(double a, double x) {
  if (x == 0) return 0;
  if (!(a > 0) || !(x > 0)) return std::nan("");
  const double middle = std::log(x) - LogGammaSlope(a);
  const auto f = [&](double s) { return (middle + s) * std::exp(a * s - x * std::expm1(s)); };
  const double end = x < a ? -60 / a - 10 : std::log(60 / x + 10);
  const int steps = 40000;
  double sum = f(0) + f(end);
  for (int i = 1; i < steps; ++i) sum += (i % 2 == 0 ? 2 : 4) * f(end * i / steps);
  return x * sum * end / steps / 3;
}

}  // namespace

void AddGammaRecords(Suite& suite) {
  OpRecord& slope =
      suite.Op("RandomGammaGrad").Reference(EachRealPair(SampleSlope)).NoGradient().Tolerance(2e-6);
  for (DType d : {DType::kFloat32, DType::kFloat64}) {
    slope.Call({Make(d, {10}, {0.25, 0.5, 1, 1, 2, 2.5, 10, 10, 50, 50}),
                Make(d, {10}, {0.25, 3, 0.5, 4, 0.125, 6, 8, 15, 40, 70})});
    slope.Call({Make(d, {2, 1}, {0.5, 3}), Sample(d, {2, 3}, 0.5, 5)});
    slope.Call({Make(d, {4}, {2, -1, 0, 1}), Make(d, {4}, {0, 1, 1, -1})});
    slope.Call({Sample(d, {0}), Sample(d, {1})});
  }
  slope.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {4})},
                "Incompatible shapes: [2,3] vs. [4]");

  const auto alpha = Make(DType::kFloat32, {2}, {0.5, 3});
  suite.Op("RandomGamma")
      .TestedElsewhere("compared with TensorFlow's numbers: tests/conformance/random/random_test.cc")
      .Hostile({Ints({2, -1}), alpha}, "shape")
      .Hostile({Longs({kWide, kWide}), alpha}, "shape")
      .Hostile({Longs({int64_t{1} << 62}), alpha}, "no shape has the dimensions")
      .Hostile({Int(2), alpha}, "shape must be a vector")
      .OutOfMemory({Longs({kWide}), alpha});
}

}  // namespace weir::conformance
