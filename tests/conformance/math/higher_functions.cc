// Bessel functions, and integrals that have no simpler form: by their integrals, summed step by step.
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Simpson's rule.
double Integral(double from, double to, const std::function<double(double)>& f) {
  constexpr int kSteps = 4000;
  const double step = (to - from) / kSteps;
  double sum = f(from) + f(to);
  for (int i = 1; i < kSteps; ++i) sum += (i % 2 == 0 ? 2 : 4) * f(from + i * step);
  return sum * step / 3;
}

double BesselI(int order, double x) {
  return Integral(0, kPi, [=](double t) { return std::exp(x * std::cos(t)) * std::cos(order * t); }) / kPi;
}
double BesselJ(int order, double x) {
  return Integral(0, kPi, [=](double t) { return std::cos(order * t - x * std::sin(t)); }) / kPi;
}
double BesselK(int order, double x) {
  return Integral(0, 8, [=](double t) { return std::exp(-x * std::cosh(t)) * std::cosh(order * t); });
}
double BesselY(int order, double x) {
  const double near = Integral(0, kPi, [=](double t) { return std::sin(x * std::sin(t) - order * t); });
  const double far = Integral(0, 8, [=](double t) {
    return (std::exp(order * t) + std::cos(order * kPi) * std::exp(-order * t)) * std::exp(-x * std::sinh(t));
  });
  return (near - far) / kPi;
}
double Dawson(double x) {
  return Integral(0, x, [=](double t) { return std::exp(t * t - x * x); });
}
// Euler's constant and the logarithm of x are what is left of the pole.
double ExponentialIntegral(double x) {
  return std::numbers::egamma + std::log(x) +
         Integral(0, x, [](double t) { return t == 0 ? 1 : std::expm1(t) / t; });
}
double Spence(double x) {
  return Integral(1, x, [](double t) { return t == 1 ? -1 : std::log(t) / (1 - t); });
}

// At both infinities, and at zero: what TensorFlow gives, which is no limit everywhere.
struct Ends {
  double low, zero, high;
};

void AddFunction(Suite& suite, const std::string& op, double low, double high, const Ends& ends,
                 const std::function<double(double)>& f) {
  const auto everywhere = [=](double x) {
    if (std::isnan(x)) return x;
    if (std::isinf(x)) return x < 0 ? ends.low : ends.high;
    return x == 0 ? ends.zero : f(x);
  };
  OpRecord& record = suite.Op(op).Reference(EachReal(everywhere)).CannotFail();
  record.Tolerance(0).Unary({DType::kFloat32, DType::kHalf, DType::kBfloat16}, low, high);
  record.Tolerance(1e-9).Unary({DType::kFloat64}, low, high);  // as exact as Simpson's rule is
  // TensorFlow's BesselY1 of a single-precision 0 is NaN, that of a double-precision one is not.
  record.Call({.inputs = {Make(DType::kFloat64, {4}, {-kInfinity, 0, kInfinity, kNaN})},
               .check_gradient = false,
               .label = "ends"});
  record.Call({.inputs = {Make(DType::kFloat32, {3}, {-kInfinity, kInfinity, kNaN})},
               .check_gradient = false,
               .label = "ends"});
}

}  // namespace

void AddHigherFunctionsRecords(Suite& suite) {
  for (const int order : {0, 1}) {
    const std::string name = std::to_string(order);
    const auto add = [&](const std::string& kind, double low, double high, const Ends& ends,
                         double (*f)(int, double)) {
      AddFunction(suite, kind + name, low, high, ends, [=](double x) { return f(order, x); });
    };
    const double at_zero = order == 0 ? 1 : 0;
    const Ends poles = {kInfinity, kInfinity, 0};
    add("BesselI", 0.2, 4, {kNaN, at_zero, kNaN}, BesselI);
    add("BesselK", 0.3, 5, poles, BesselK);
    add("BesselJ", 0.2, 30, {kNaN, at_zero, kNaN}, BesselJ);
    add("BesselY", 0.5, 20, {-kInfinity, -kInfinity, kNaN}, BesselY);
    AddFunction(suite, "BesselI" + name + "e", 0.1, 40, {0, at_zero, 0},
                [=](double x) { return std::exp(-std::abs(x)) * BesselI(order, x); });
    AddFunction(suite, "BesselK" + name + "e", 0.3, 40, poles,
                [=](double x) { return std::exp(x) * BesselK(order, x); });
  }
  AddFunction(suite, "Dawsn", -6, 6, {0, 0, 0}, Dawson);
  AddFunction(suite, "Expint", 0.5, 6, {kNaN, -kInfinity, kNaN}, ExponentialIntegral);
  AddFunction(suite, "FresnelCos", -4, 4, {-0.5, 0, 0.5},
              [](double x) { return Integral(0, x, [](double t) { return std::cos(kPi * t * t / 2); }); });
  AddFunction(suite, "FresnelSin", -4, 4, {-0.5, 0, 0.5},
              [](double x) { return Integral(0, x, [](double t) { return std::sin(kPi * t * t / 2); }); });
  AddFunction(suite, "Spence", 0.3, 9, {kNaN, kPi * kPi / 6, kNaN}, Spence);
}

}  // namespace weir::conformance
