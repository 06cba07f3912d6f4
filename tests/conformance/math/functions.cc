// Elementwise functions of one number, and those of their gradients that are one op.
#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const std::vector<DType> kFloatAndDouble = {DType::kFloat32, DType::kFloat64};

// A function of real and complex numbers, where it has a derivative.
void AddFunction(Suite& suite, const std::string& op, double low, double high,
                 std::function<double(double)> real, std::function<Number(Number)> complex) {
  suite.Op(op)
      .Reference(EachNumber(std::move(real), std::move(complex)))
      .Unary(kInexact, low, high)
      .Extremes(kFloatAndDouble, 1e-5)
      .CannotFail();
}

// The logarithm of the gamma function by its integral's second form (Binet, DLMF 5.9.10) is not exact enough;
// this is Gauss's limit with its error terms: shifted far out, then Stirling's series.
double DigammaByDefinition(double x) {
  if (x <= 0 && x == std::floor(x)) return std::nan("");
  double sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  return sum + std::log(x) - 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * std::pow(x, 4)) -
         1 / (252 * std::pow(x, 6));
}

void AddTrigonometry(Suite& suite) {
  using C = Number;
  const auto add = [&](const std::string& op, double low, double high, double (*real)(double),
                       C (*complex)(const C&)) { AddFunction(suite, op, low, high, real, complex); };
  add("Sin", -3, 3, std::sin, std::sin<double>);
  add("Cos", -3, 3, std::cos, std::cos<double>);
  add("Tan", -1, 1, std::tan, std::tan<double>);
  add("Asin", -0.9, 0.9, std::asin, std::asin<double>);
  add("Acos", -0.9, 0.9, std::acos, std::acos<double>);
  add("Atan", -3, 3, std::atan, std::atan<double>);
  add("Sinh", -3, 3, std::sinh, std::sinh<double>);
  add("Cosh", -3, 3, std::cosh, std::cosh<double>);
  add("Asinh", -3, 3, std::asinh, std::asinh<double>);
  add("Acosh", 1.2, 4, std::acosh, std::acosh<double>);
  add("Atanh", -0.9, 0.9, std::atanh, std::atanh<double>);
}

void AddRounding(Suite& suite) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, double (*f)(double)) {
    suite.Op(op)
        .Reference(EachReal(f))
        .Unary(dtypes, -3, 3)
        .Call({Make(DType::kFloat32, {6}, {0.5, 1.5, 2.5, -0.5, -1.5, -2.5})})
        .Extremes(kFloatAndDouble)
        .CannotFail();
  };
  add("Ceil", kReals, std::ceil);
  add("Rint", kReals, std::nearbyint);
  add("Round", Join({kReals, {DType::kInt32, DType::kInt64}}), std::nearbyint);
  suite.Op("Round").NoKernelFor("T", {DType::kInt8, DType::kInt16, DType::kComplex64, DType::kComplex128},
                                "TensorFlow has none either");
}

// Where the normal distribution function reaches p, between two bounds that close in on it. For p > 1/2 the
// mirror image is searched, as 1 - p is exact and the distribution function close to 1 is not.
double NormalQuantileByDefinition(double p) {
  if (!(p >= 0 && p <= 1)) return std::nan("");
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  if (p > 0.5) return -NormalQuantileByDefinition(1 - p);
  double low = -40, high = 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Where the error function reaches x, in the same way; 1 - x is exact where x > 1/2.
double InverseErfByDefinition(double x) {
  if (!(std::abs(x) <= 1)) return std::nan("");
  if (x < 0) return -InverseErfByDefinition(-x);
  if (x == 0 || x == 1) return x == 0 ? 0 : kInfinity;
  // So small that erf is a straight line: bounds that close in would be too many.
  if (x < 1e-9) return x * std::sqrt(std::numbers::pi) / 2;
  double low = 0, high = 6;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    const bool is_below = x > 0.5 ? std::erfc(middle) > 1 - x : std::erf(middle) < x;
    (is_below ? low : high) = middle;
  }
  return (low + high) / 2;
}

void AddNormalDistribution(Suite& suite) {
  suite.Op("Erfinv")
      .Reference(EachReal(InverseErfByDefinition))
      .Unary(kReals, -0.96, 0.96)
      .Extremes(kFloatAndDouble, 1e-5)
      .CannotFail();
  suite.Op("Erfinv").NoGradient().Call(
      {.inputs = {Make(DType::kFloat64, {11},
                       {1e-300, 1e-20, 1e-8, 0.5, -0.85, 0.85, 0.999, 1 - 1e-12, 1 - 0x1p-53, 1, -1})},
       .label = "tails"});
  suite.Op("Ndtri")
      .Reference(EachReal(NormalQuantileByDefinition))
      .Unary(kReals, 0.02, 0.98)
      .Extremes(kFloatAndDouble, 1e-5)
      .CannotFail();
  suite.Op("Ndtri").NoGradient().Call(
      {.inputs = {Make(DType::kFloat64, {9},
                       {1e-300, 1e-20, 1e-11, 1e-3, 0.075, 0.5, 0.925, 0.999, 1 - 1e-12})},
       .label = "tails"});
}

void AddGammaFamily(Suite& suite) {
  suite.Op("Erf").Reference(EachReal([](double x) { return std::erf(x); })).Unary(kReals, -3, 3);
  suite.Op("Erfc").Reference(EachReal([](double x) { return std::erfc(x); })).Unary(kReals, -3, 3);
  suite.Op("Lgamma").Reference(EachReal([](double x) { return std::lgamma(x); })).Unary(kReals, 0.3, 20);
  suite.Op("Lgamma").Unary({DType::kFloat64}, -2.9, -2.1);
  suite.Op("Digamma").Reference(EachReal(DigammaByDefinition)).Unary(kReals, 0.3, 20);
  suite.Op("Digamma").Unary({DType::kFloat64}, -2.9, -2.1);
  suite.Op("Digamma").Call(
      {.inputs = {Make(DType::kFloat64, {3}, {0, -1, -2})}, .check_gradient = false, .label = "poles"});
  // TensorFlow's Erf of an infinite double is NaN.
  suite.Op("Erf").Extremes({DType::kFloat32}, 1e-5);
  for (const char* op : {"Erfc", "Lgamma"}) suite.Op(op).Extremes(kFloatAndDouble, 1e-5);
  for (const char* op : {"Erf", "Erfc", "Lgamma", "Digamma"}) suite.Op(op).CannotFail();
}

// z = f(y, dy) with y a function's result and dy the gradient that flows into it.
void AddFusedGrad(Suite& suite, const std::string& op, std::function<Number(Number, Number)> f) {
  OpRecord& record = suite.Op(op).Reference(EachPair(std::move(f)));
  for (DType d : kInexact) record.Call({Sample(d, {19}, 0.5, 2), Sample(d, {19}, -2, 2, 5)});
  record.Call({Sample(DType::kFloat32, {0, 2}), Sample(DType::kFloat32, {0, 2})});
  record.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {4})}, "[2,3]");
  record.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {3})}, "[2,3]");
}

// x^-1 and its like of real numbers may leave them: a complex number on the real axis may not.
void AddRoots(Suite& suite) {
  const auto add = [&](const std::string& op, double low, double high, std::function<double(double)> real,
                       std::function<Number(Number)> complex) -> OpRecord& {
    return suite.Op(op).Reference(EachNumber(std::move(real), std::move(complex))).Unary(kInexact, low, high);
  };
  using C = Number;
  add(
      "Sqrt", 0.1, 4, [](double x) { return std::sqrt(x); }, [](C x) { return std::sqrt(x); });
  add(
      "Rsqrt", 0.1, 4, [](double x) { return 1 / std::sqrt(x); }, [](C x) { return 1.0 / std::sqrt(x); });
  add(
      "Reciprocal", 0.5, 4, [](double x) { return 1 / x; }, [](C x) { return 1.0 / x; })
      .NoGradient()
      .Unary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16}, 1, 3)
      .Hostile({Ints({1, 0})}, "Integer division by zero");
  add(
      "Exp", -3, 3, [](double x) { return std::exp(x); }, [](C x) { return std::exp(x); });
  add(
      "Log", 0.1, 9, [](double x) { return std::log(x); }, [](C x) { return std::log(x); });
  add(
      "Log1p", -0.9, 9, [](double x) { return std::log1p(x); }, [](C x) { return std::log(1.0 + x); });
  add(
      "Tanh", -1.5, 1.5, [](double x) { return std::tanh(x); }, [](C x) { return std::tanh(x); });
  add(
      "Sigmoid", -3, 3, [](double x) { return 1 / (1 + std::exp(-x)); },
      [](C x) { return 1.0 / (1.0 + std::exp(-x)); });
}

void AddSigns(Suite& suite) {
  const auto signed_numbers =
      Join({kMain, {DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16}, kComplexes});
  suite.Op("Neg").Reference(EachNumber([](Number x) { return -x; })).Unary(signed_numbers, -3, 3);
  suite.Op("Square").Reference(EachNumber([](Number x) { return x * x; })).Unary(signed_numbers, -3, 3);
  suite.Op("Abs")
      .Reference(EachReal([](double x) { return std::abs(x); }))
      .Unary(Join({kMain, {DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16}}), -3, 3);
  suite.Op("Sign")
      .Reference(EachNumber([](double x) { return x > 0   ? 1
                                                  : x < 0 ? -1
                                                          : x; },
                            [](Number x) { return x == 0.0 ? x : x / std::abs(x); }))
      .NoGradient()
      .Unary(signed_numbers, -3, 3);
  suite.Op("Floor")
      .Reference(EachReal([](double x) { return std::floor(x); }))
      .NoGradient()
      .Unary(kReals, -3, 3);
}

// Denormal numbers lose digits, so 1/x and 1/sqrt(x) of them are less exact.
void AddExtremes(Suite& suite) {
  for (const char* op : {"Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Log", "Log1p", "Abs", "Sign",
                         "Floor", "Tanh", "Sigmoid"}) {
    suite.Op(op).Extremes({DType::kFloat32}, 1e-5).Extremes({DType::kFloat64}, 1e-12);
  }
  for (const char* op :
       {"Neg", "Square", "Sqrt", "Rsqrt", "Exp", "Log", "Log1p", "Abs", "Sign", "Floor", "Tanh", "Sigmoid"}) {
    suite.Op(op).CannotFail();
  }
}

// Of functions whose result is in [-1, 1].
void AddGradOfBounded(Suite& suite, const std::string& op, std::function<Number(Number, Number)> f) {
  OpRecord& record = suite.Op(op).Reference(EachPair(std::move(f)));
  for (DType d : kInexact) record.Call({Sample(d, {19}, -1, 1), Sample(d, {19}, -2, 2, 5)});
  record.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {4})}, "[2,3]");
  record.Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {3})}, "[2,3]");
}

}  // namespace

void AddFunctionsRecords(Suite& suite) {
  AddRoots(suite);
  AddSigns(suite);
  AddExtremes(suite);
  AddGradOfBounded(suite, "TanhGrad", [](Number y, Number dy) { return dy * (1.0 - y * y); });
  AddGradOfBounded(suite, "SigmoidGrad", [](Number y, Number dy) { return dy * y * (1.0 - y); });
  AddTrigonometry(suite);
  AddRounding(suite);
  AddGammaFamily(suite);
  AddNormalDistribution(suite);
  AddFunction(
      suite, "Expm1", -3, 3, [](double x) { return std::expm1(x); },
      [](Number x) { return std::exp(x) - 1.0; });
  AddFunction(
      suite, "Inv", 0.5, 4, [](double x) { return 1 / x; }, [](Number x) { return 1.0 / x; });
  suite.Op("Inv").NoGradient().Unary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16}, 1, 3);
  AddFusedGrad(suite, "SqrtGrad", [](Number y, Number dy) { return dy * 0.5 / std::conj(y); });
  AddFusedGrad(suite, "RsqrtGrad",
               [](Number y, Number dy) { return -0.5 * dy * std::conj(y) * std::conj(y) * std::conj(y); });
  for (const char* op : {"ReciprocalGrad", "InvGrad"}) {
    AddFusedGrad(suite, op, [](Number y, Number dy) { return -dy * std::conj(y) * std::conj(y); });
  }
}

}  // namespace weir::conformance
