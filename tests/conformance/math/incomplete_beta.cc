// The incomplete beta function.
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;

// The integral of t^(a-1) (1-t)^(b-1) from 0 to x, divided by that to 1: in steps of u that crowd at both
// ends, where t = x / (1 + exp(-pi sinh u)).
double BetaIntegral(double a, double b, double x) {
  constexpr double kPi = std::numbers::pi, kEnd = 6, kStep = 1.0 / 64;
  const double log_beta = std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  double sum = 0;
  for (double u = -kEnd; u <= kEnd; u += kStep) {
    const double w = kPi * std::sinh(u), log_t = std::log(x) - std::log1p(std::exp(-w));
    const double part = std::exp(a * log_t + (b - 1) * std::log1p(-std::exp(log_t)) - log_beta);
    sum += part * kPi * std::cosh(u) / (1 + std::exp(w));
  }
  return sum * kStep;
}

// Where the steps are too wide for the integral: by power series in numbers of 260 bits (mpmath 1.3).
struct KnownBeta {
  double a, b, x, value;
};
constexpr KnownBeta kLarge[] = {
    {2e4, 3e4, 0.4, 0.50024278927297792},    {2e4, 3e4, 0.405, 0.98868640790774322},
    {1e6, 2e6, 0.333, 0.11032283951664962},  {1e5, 1e5, 0.497, 0.0036449523647139963},
    {1e5, 3, 0.9999, 0.0027680339601161102}, {3, 1e6, 1e-6, 0.08030167298125864}};

// TensorFlow gives x at 0 and 1 also where a parameter is NaN.
double BetaByDefinition(double a, double b, double x) {
  if (a <= 0 || b <= 0) return std::nan("");
  if (x == 0 || x == 1) return x;
  if (std::isnan(a) || std::isnan(b) || !(x > 0 && x < 1)) return std::nan("");
  if (std::isinf(a) || std::isinf(b)) return a == b ? std::nan("") : a < b ? 1 : 0;
  for (const KnownBeta& known : kLarge) {
    if (known.a == a && known.b == b && known.x == x) return known.value;
  }
  return x * (a + b) <= a ? BetaIntegral(a, b, x) : 1 - BetaIntegral(b, a, 1 - x);
}

void Betainc(Call& call) {
  int widest = 0;
  for (int i = 1; i < 3; ++i) {
    if (call.in(widest).rank() == 0) widest = i;
  }
  const auto at = [&](int input, int64_t i) {
    return call.in(input)[call.in(input).rank() == 0 ? 0 : i].real();
  };
  call.outputs[0] = Array(call.in(widest).dims());
  for (int64_t i = 0; i < call.outputs[0].size(); ++i) {
    call.outputs[0][i] = BetaByDefinition(at(0, i), at(1, i), at(2, i));
  }
}

Tensor Doubles(std::vector<double> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Make(DType::kFloat64, {size}, std::move(values));
}

}  // namespace

void AddIncompleteBetaRecords(Suite& suite) {
  // The gradient is that of x only, as in TensorFlow: small differences see the others too.
  OpRecord& record = suite.Op("Betainc").Reference(Betainc).NoGradient();
  for (DType d : {DType::kFloat64, DType::kFloat32}) {
    const auto parameter = [&](std::vector<int64_t> dims, int seed) {
      return Sample(d, std::move(dims), 0.25, 9, seed);
    };
    const auto point = [&](std::vector<int64_t> dims) {
      return Sample(d, std::move(dims), 0.0625, 0.9375, 3);
    };
    record.Call({parameter({37}, 1), parameter({37}, 2), point({37})})
        .Call({parameter({}, 1), parameter({}, 2), point({})})
        .Call({parameter({}, 1), parameter({}, 2), point({2, 3})})
        .Call({parameter({2, 3}, 1), parameter({2, 3}, 2), point({})})
        .Call({parameter({2, 3}, 1), parameter({}, 2), point({2, 3})})
        .Call({parameter({}, 1), parameter({4}, 2), point({})})
        .Call({parameter({}, 1), parameter({1}, 2), point({})})
        .Call({parameter({0, 2}, 1), parameter({}, 2), point({0, 2})});
  }
  // From one end to the other, where the integral's error is that of a logarithm of some hundreds.
  record.Tolerance(1e-12).Call(
      {Doubles({0.125, 0.125, 0.125, 1, 1, 9, 9, 90, 90, 90, 300, 300, 0.1, 50, 12}),
       Doubles({0.125, 9, 90, 1, 0.5, 90, 0.125, 90, 3, 0.25, 200, 300, 0.1, 0.25, 4000}),
       Doubles({1e-6, 0.5, 0.01, 0.75, 0.999, 0.1, 0.9, 0.5, 0.99, 0.995, 0.62, 0.3, 0.5, 0.999, 0.002})});
  std::vector<double> a, b, x;
  for (const KnownBeta& known : kLarge) {
    a.push_back(known.a);
    b.push_back(known.b);
    x.push_back(known.x);
  }
  record.Call({.inputs = {Doubles(a), Doubles(b), Doubles(x)}, .tolerance = 1e-14, .label = "large"});
  const Tensor ends_a = Doubles({2, 2, NAN, 2, NAN, NAN, 2, 0, 2, 0, -1, 2, 2, 2, kInfinity, 2});
  const Tensor ends_b = Doubles({3, 3, 3, NAN, 3, 3, NAN, 3, 0, 3, 3, -1, 3, 3, kInfinity, 3});
  const Tensor ends_x = Doubles({0, 1, 0, 1, 0.5, 2, 0.5, 0, 1, 0.5, 0.5, 0.5, -0.5, 1.5, 0.5, NAN});
  record.Tolerance(0).Call({.inputs = {ends_a, ends_b, ends_x}, .label = "ends"});
  record.Call({.inputs = {Doubles({kInfinity, 2, kInfinity, 2}), Doubles({2, kInfinity, 2, kInfinity}),
                          Doubles({0.5, 0.5, 0, 1})},
               .label = "infinite"});
  const auto f = [](std::vector<int64_t> dims) {
    return Sample(DType::kFloat32, std::move(dims), 0.25, 0.75);
  };
  record.Hostile({f({2, 3}), f({3}), f({})}, "b is [3] where a is [2,3]")
      .Hostile({f({}), f({2}), f({3})}, "x is [3] where b is [2]")
      .Hostile({f({2}), f({}), f({1})}, "x is [1] where a is [2]")
      .Hostile({f({1}), f({1, 1}), f({1})}, "b is [1,1] where a is [1]");
}

}  // namespace weir::conformance
