// Elementwise arithmetic of several numbers.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const Number kZero = 0;

const OperandRange kAboveZero = {-3, 3, 1, 3};
constexpr char kNotInTensorFlow[] = "TensorFlow has none either";

bool HasIntegers(const reference::Call& call) {
  const DType dtype = call.node.input_type(0);
  return !IsFloating(dtype) && !IsComplex(dtype);
}

// The same op on integers and on real or complex numbers.
reference::Reference ByType(reference::Reference of_integers, reference::Reference of_others) {
  return [=](reference::Call& call) { (HasIntegers(call) ? of_integers : of_others)(call); };
}

// A string is larger than any number, and a long one refers to memory.
const std::string kLongString(100, 'x');
const Tensor kManyStrings =
    Strings({4, 3}, {"a", kLongString, "c", "", "e", "f", "g", "h", "i", "j", "k", "l"});

void AddSums(Suite& suite) {
  const auto sum = EachPair([](Number x, Number y) { return x + y; });
  suite.Op("AddV2").Reference(sum).Binary(kNumbers);
  suite.Op("Add")
      .Reference(EachPairOfValues([](const Value& x, const Value& y) {
        Value result(x.number + y.number);
        result.text = x.text + y.text;
        return result;
      }))
      .Binary(Join(
          {kMain, {DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16, DType::kUint8}, kComplexes}))
      .Call({Strings({2}, {"a", ""}), Strings({}, {"tail"})})
      .Call({kManyStrings, Strings({3}, {"one", kLongString, ""})})
      .Call({kManyStrings, Strings({4, 1}, {"one", kLongString, "", "four"})})
      .Call({Strings({3}, {"one", kLongString, ""}), kManyStrings});
  OpRecord& difference = suite.Op("Sub").Reference(EachPair([](Number x, Number y) { return x - y; }));
  difference.Binary(kNumbers, {2, 5, -2, 2});
  // Short rows, of which kernels may compute many at a time: more of them than a block holds.
  for (DType d : {DType::kInt8, DType::kBfloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    difference.Call({Sample(d, {300, 7}), Sample(d, {7}, -2, 2, 2)});
    difference.Call({Sample(d, {300, 1}), Sample(d, {300, 7}, -2, 2, 2)});
    difference.Call({Sample(d, {5, 1, 40, 3}), Sample(d, {9, 1, 3}, -2, 2, 2)});
  }
  const auto f = [](std::vector<int64_t> dims, int seed = 1) {
    return Sample(DType::kFloat32, std::move(dims), -2, 2, seed);
  };
  using Tensors = std::vector<Tensor>;
  const Tensor half = Sample(DType::kHalf, {3});
  suite.Op("AddN")
      .Reference([](reference::Call& call) {
        call.outputs[0] = Array(call.in(0).dims());
        for (const Array& input : call.inputs) {
          for (int64_t i = 0; i < input.size(); ++i) call.outputs[0][i].number += input[i].number;
        }
      })
      .Call({Tensors{f({3, 7})}})
      .Call({Tensors{f({37}), f({37}, 3), f({37}, 4)}})
      .Call({Tensors{Sample(DType::kInt64, {3}), Sample(DType::kInt64, {3}, 0, 9)}})
      .Call({Tensors{half, half, half}})
      .Hostile({Tensors{f({2}), f({3})}}, "inputs[1] is [3]")
      .Hostile({Tensors{f({0}), f({1})}}, "inputs[1] is [1]");
}

void AddDivisions(Suite& suite) {
  const auto quotient = EachPair([](Number x, Number y) { return x / y; });
  suite.Op("Div")
      .Reference(ByType(EachRealPair([](double x, double y) { return std::trunc(x / y); }), quotient))
      .Binary(kNumbers, {-9, 9, 1, 3});
  suite.Op("RealDiv")
      .Reference(quotient)
      .Binary(kInexact, kAboveZero)
      .NoKernelFor("T", kIntegers, kNotInTensorFlow);
  suite.Op("FloorDiv")
      .Reference(EachRealPair([](double x, double y) { return std::floor(x / y); }))
      .NoKernelFor("T", kComplexes, kNotInTensorFlow);
  suite.Op("FloorMod").Reference(EachRealPair([](double x, double y) { return x - std::floor(x / y) * y; }));
  const double largest[] = {3, 4};
  for (int i : {0, 1}) {
    suite.Op(i == 0 ? "FloorDiv" : "FloorMod")
        .NoGradient()
        .Binary(kOrdered, {-9, 9, 1, largest[i]})
        .Binary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kFloat32}, {-9, 9, -largest[i], -1});
  }
  for (const char* op : {"Div", "FloorDiv", "FloorMod"}) {
    suite.Op(op)
        .Hostile({Ints({1, 2}), Ints({1, 0})}, "Integer division by zero")
        .Hostile({Longs({1, 2}), Tensor::Scalar<int64_t>(0)}, "Integer division by zero");
  }
  suite.Op("DivNoNan")
      .Reference(EachPair([](Number x, Number y) { return y == kZero ? kZero : x / y; }))
      .Binary(kInexact, kAboveZero)
      .NoGradient()
      .Call({Make(DType::kFloat32, {3}, {1, 0, -1}), Make(DType::kFloat32, {3}, {0, 0, 2})});
}

void AddProducts(Suite& suite) {
  suite.Op("Mul").Reference(EachPair([](Number x, Number y) { return x * y; })).Binary(kNumbers);
  suite.Op("SquaredDifference")
      .Reference(EachPair([](Number x, Number y) { return Number(std::norm(x - y)); }))
      .Binary(Join({kMain, {DType::kHalf, DType::kBfloat16}, kComplexes}));
  suite.Op("Pow")
      .Reference([](reference::Call& call) {
        if (!IsComplex(call.node.input_type(0))) {
          EachRealPair([](double x, double y) { return std::pow(x, y); })(call);
        } else {
          EachPair([](Number x, Number y) { return std::pow(x, y); })(call);
        }
      })
      .Binary(kInexact, {0.5, 2, -2, 2})
      .Binary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16}, {-3, 3, 0, 3})
      .Hostile({Ints({2}), Ints({-1})}, "negative integer powers");
}

void AddExtremesOfTwo(Suite& suite) {
  suite.Op("Maximum").Reference(EachPair(Largest)).Binary(kOrdered).ExtremesAndOne();
  suite.Op("Minimum").Reference(EachPair(Least)).Binary(kOrdered).ExtremesAndOne();
}

void AddProductsAndQuotients(Suite& suite) {
  suite.Op("MulNoNan")
      .Reference(EachPair([](Number x, Number y) { return y == kZero ? kZero : x * y; }))
      .Binary(kInexact)
      .Call(
          {.inputs = {Make(DType::kFloat32, {3}, {INFINITY, NAN, 2}), Make(DType::kFloat32, {3}, {0, 0, 3})},
           .check_gradient = false,
           .label = "nan"});
  suite.Op("Xdivy")
      .Reference(EachPair([](Number x, Number y) { return x == kZero ? kZero : x / y; }))
      .Binary(kInexact, kAboveZero);
  suite.Op("Xlogy")
      .Reference(EachPair([](Number x, Number y) { return x == kZero ? kZero : x * std::log(y); }))
      .Binary(kInexact, kAboveZero);
  suite.Op("Xlog1py")
      .Reference(EachPair([](Number x, Number y) { return x == kZero ? kZero : x * std::log(1.0 + y); }))
      .Binary(kInexact, kAboveZero);
  for (const char* op : {"Xdivy", "Xlogy", "Xlog1py"}) {
    suite.Op(op).NoGradient().Call(
        {Make(DType::kFloat64, {2}, {0, 0}), Make(DType::kFloat64, {2}, {0, NAN})});
  }
  suite.Op("TruncateDiv")
      .Reference(EachRealPair([](double x, double y) { return std::trunc(x / y); }))
      .NoKernelFor("T", kComplexes, kNotInTensorFlow)
      .Binary(kOrdered, {-9, 9, 1, 3})
      .Binary({DType::kInt32, DType::kInt8, DType::kFloat32}, {-9, 9, -3, -1});
  for (const char* op : {"TruncateMod", "Mod"}) {
    suite.Op(op)
        .Reference(EachRealPair([](double x, double y) { return std::fmod(x, y); }))
        .Binary(Join({kReals, {DType::kInt32, DType::kInt64}}), {-9, 9, 1, 4})
        .Binary({DType::kInt32, DType::kInt64}, {-9, 9, -4, -1});
  }
  for (const char* op : {"TruncateDiv", "TruncateMod", "Mod"}) {
    suite.Op(op)
        .Hostile({Ints({1, 2}), Ints({1, 0})}, "Integer division by zero")
        .Hostile({Longs({1, 2}), Longs({0})}, "Integer division by zero");
  }
}

// The first terms, and the rest by its integral and two corrections.
double ZetaByDefinition(double x, double q) {
  double sum = 0;
  constexpr int kTerms = 2000;
  for (int k = 0; k < kTerms; ++k) sum += std::pow(q + k, -x);
  const double end = q + kTerms;
  return sum + std::pow(end, 1 - x) / (x - 1) + std::pow(end, -x) / 2 + x * std::pow(end, -x - 1) / 12;
}

// The integral of t^(a-1) e^-t f(t) from 0 to x, divided by Gamma(a), f being 1 or log t: in steps of u that
// crowd at both ends, where t = x / (1 + exp(-pi sinh u)).
double GammaIntegral(double a, double x, bool is_of_log) {
  constexpr double kPi = std::numbers::pi, kEnd = 6, kStep = 1.0 / 64;
  double sum = 0;
  for (double u = -kEnd; u <= kEnd; u += kStep) {
    const double w = kPi * std::sinh(u), log_t = std::log(x) - std::log1p(std::exp(-w));
    const double part = std::exp(a * log_t - std::exp(log_t) - std::lgamma(a));
    sum += (is_of_log ? log_t : 1) * part * kPi * std::cosh(u) / (1 + std::exp(w));
  }
  return sum * kStep;
}

// Where the steps are too wide for the integral: by its power series in numbers of 1300 bits (mpmath 1.3).
struct KnownGamma {
  double a, x, lower, slope;
};
constexpr KnownGamma kLargeGamma[] = {{2e4, 19900, 0.24011560718543099, -0.0022006348552485094},
                                      {2e4, 2e4, 0.50094031623374932, -0.0028209596717325133},
                                      {1e5, 100300, 0.82863631125120765, -0.00080392821236356437}};
const KnownGamma* FindKnownGamma(double a, double x) {
  const auto* const found =
      std::find_if(std::begin(kLargeGamma), std::end(kLargeGamma),
                   [&](const KnownGamma& known) { return known.a == a && known.x == x; });
  return found == std::end(kLargeGamma) ? nullptr : found;
}

// TensorFlow's limits: it gives 0 at x = 0 whatever a is, and 0 where both are infinite.
double IgammaByDefinition(double a, double x) {
  if (const KnownGamma* known = FindKnownGamma(a, x)) return known->lower;
  if (x == 0) return 0;
  if (!(a > 0) || !(x > 0)) return std::nan("");
  if (std::isinf(a) || std::isinf(x)) return x > a ? 1 : 0;
  return GammaIntegral(a, x, false);
}

double IgammacByDefinition(double a, double x) {
  if (!(a > 0)) return std::nan("");
  return a == x && std::isinf(a) ? 0 : 1 - IgammaByDefinition(a, x);
}

// By its integral; the one of log t to infinity, or far out, is the logarithmic derivative of Gamma(a).
double IgammaGradAByDefinition(double a, double x) {
  if (const KnownGamma* known = FindKnownGamma(a, x)) return known->slope;
  const double value = IgammaByDefinition(a, x);
  if (value == 0 || std::isnan(value) || std::isinf(x)) return 0 * value;
  return GammaIntegral(a, x, true) - value * GammaIntegral(a, 2 * a + 100, true);
}

void AddIncompleteGamma(Suite& suite) {
  suite.Op("Igamma").Reference(EachRealPair(IgammaByDefinition));
  suite.Op("Igammac").Reference(EachRealPair(IgammacByDefinition));
  suite.Op("IgammaGradA").Reference(EachRealPair(IgammaGradAByDefinition)).NoGradient();
  const auto doubles = [](std::vector<double> values) {
    const auto size = static_cast<int64_t>(values.size());
    return Make(DType::kFloat64, {size}, std::move(values));
  };
  const std::vector<DType> big = {DType::kFloat64, DType::kFloat32};
  for (const std::string op : {"Igamma", "Igammac", "IgammaGradA"}) {
    OpRecord& record = suite.Op(op).Binary(op == "IgammaGradA" ? big : kReals, {0.25, 5, 0.125, 9});
    // From one end to the other; here and in TensorFlow with the error of a logarithm of 1000^1000.
    record.NoGradient().Tolerance(1e-11).Call(
        {doubles({0.125, 0.125, 0.125, 1, 1, 9, 9, 90, 90, 90, 900, 900, 900, 900}),
         doubles({1e-3, 1, 30, 1e-3, 30, 3, 30, 60, 90, 120, 800, 899, 901, 1000})});
    record.Tolerance(0).Call({doubles({2e4, 2e4, 1e5}), doubles({19900, 2e4, 100300})});
    record.Call(
        {.inputs = {doubles({0, -1, NAN, 2, 2, NAN, NAN, 0, -1, 3, 3, kInfinity, kInfinity, kInfinity}),
                    doubles({0, 0, 0, 0, NAN, 1, NAN, 2, 2, -2, kInfinity, 3, kInfinity, 0})},
         .label = "ends"});
  }
}

void AddFunctionsOfTwo(Suite& suite) {
  suite.Op("Atan2")
      .Reference(EachRealPair([](double y, double x) { return std::atan2(y, x); }))
      .Binary(kReals)
      .Call({.inputs = {Make(DType::kFloat32, {4}, {0, 0, -0.0, 1}),
                        Make(DType::kFloat32, {4}, {0, -1, -1, 0})},
             .check_gradient = false,
             .label = "axes"});
  // In the numbers of the dtype, which the tolerance tells from their neighbours.
  suite.Op("NextAfter")
      .Reference([](reference::Call& call) {
        const bool is_float = call.node.input_type(0) == DType::kFloat32;
        EachRealPair([is_float](double x, double y) {
          return is_float ? std::nextafter(static_cast<float>(x), static_cast<float>(y))
                          : std::nextafter(x, y);
        })(call);
      })
      .Tolerance(1e-8)
      .Binary({DType::kFloat32})
      .Tolerance(1e-17)
      .Binary({DType::kFloat64})
      .ExtremesAndOne();
  suite.Op("Zeta")
      .Reference(EachRealPair(ZetaByDefinition))
      .NoGradient()  // of q only, as TensorFlow
      .Tolerance(1e-5)
      .Binary({DType::kFloat32, DType::kFloat64}, {2, 5, 0.5, 12})
      .Tolerance(1e-12)
      .Call({Make(DType::kFloat64, {5}, {2, 3, 2, 4, 60}),
             Make(DType::kFloat64, {5}, {-1.5, -2.5, 30, 1e4, 2})})
      // Terms of both signs that no double holds: as many follow as x is large.
      .Call({Make(DType::kFloat64, {5}, {9007199254740991, 2147483647, 2147483648, 105, 301}),
             Make(DType::kFloat64, {5}, {-1.5, -0.25, -0.25, -0.001, -1.4})});
  suite.Op("Polygamma")
      .Reference(EachRealPair([](double n, double x) {
        return (std::fmod(n, 2) == 0 ? -1 : 1) * std::tgamma(n + 1) * ZetaByDefinition(n + 1, x);
      }))
      .NoGradient()
      .Tolerance(1e-12)
      .Call({Make(DType::kFloat64, {4}, {1, 2, 3, 1}), Make(DType::kFloat64, {4}, {2, 0.5, 7, -1.5})})
      .Call({Make(DType::kFloat64, {}, {1}), Sample(DType::kFloat64, {2, 5}, 0.5, 9)})
      .Call({Make(DType::kFloat64, {}, {1}), Sample(DType::kFloat64, {0, 5}, 0.5, 9)})
      .Tolerance(1e-5)
      .Call({Make(DType::kFloat32, {}, {1}), Sample(DType::kFloat32, {5}, 0.5, 9)});
}

void AddClip(Suite& suite) {
  OpRecord& record = suite.Op("ClipByValue").Reference([](reference::Call& call) {
    Array& out = call.outputs[0] = call.in(0);
    for (int64_t i = 0; i < out.size(); ++i) {
      const auto limit = [&](int input) { return call.in(input)[call.in(input).rank() == 0 ? 0 : i].real(); };
      const double t = out[i].real();
      if (!std::isnan(t)) out[i] = std::max(std::min(t, limit(2)), limit(1));
    }
  });
  for (DType d :
       {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64,
        DType::kInt8, DType::kInt16, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    const double low = IsUnsigned(d) ? 0 : -5;
    record.Call({Sample(d, {37}, low, 9), Make(d, {}, {1}), Make(d, {}, {4})});
    record.Call({Sample(d, {2, 3}, low, 9), Sample(d, {2, 3}, 0, 2, 2), Sample(d, {2, 3}, 3, 5, 3)});
  }
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims), 0, 3); };
  const Tensor some = Sample(DType::kFloat32, {2, 3}, -5, 9), high = Sample(DType::kFloat32, {2, 3}, 3, 5, 3);
  record.Call({some, Make(DType::kFloat32, {}, {1}), high});
  record.Call({some, Sample(DType::kFloat32, {2, 3}, -1, 1, 2), Make(DType::kFloat32, {}, {4})});
  record.Call({f({0, 3}), f({}), f({})});
  record.Call({.inputs = {Make(DType::kFloat32, {3}, {NAN, 1, 5}), Make(DType::kFloat32, {}, {4}),
                          Make(DType::kFloat32, {}, {3})},
               .check_gradient = false,
               .label = "crossed"});
  record.Hostile({f({2, 3}), f({3}), f({})}, "clip_value_min");
  record.Hostile({f({3}), f({}), f({2, 3})}, "clip_value_max");
  record.Hostile({f({1}), f({3}), f({})}, "clip_value_min");
  record.NoKernelFor("T", kComplexes, "numbers without an order have no limits");
}

}  // namespace

void AddElementwiseRecords(Suite& suite) {
  AddSums(suite);
  AddProducts(suite);
  AddDivisions(suite);
  AddExtremesOfTwo(suite);
  AddProductsAndQuotients(suite);
  AddFunctionsOfTwo(suite);
  AddIncompleteGamma(suite);
  AddClip(suite);
  for (const char* op : {"Add",
                         "AddV2",
                         "Sub",
                         "Mul",
                         "Div",
                         "RealDiv",
                         "DivNoNan",
                         "FloorDiv",
                         "FloorMod",
                         "Pow",
                         "SquaredDifference",
                         "Maximum",
                         "Minimum",
                         "MulNoNan",
                         "Xdivy",
                         "Xlogy",
                         "Xlog1py",
                         "TruncateDiv",
                         "TruncateMod",
                         "Mod",
                         "Atan2",
                         "NextAfter",
                         "Zeta",
                         "Polygamma",
                         "Igamma",
                         "Igammac",
                         "IgammaGradA"}) {
    const int64_t wide = int64_t{1} << 40;
    suite.Op(op)
        .Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {4})},
                 "Incompatible shapes: [2,3] vs. [4]")
        .Hostile({Tensor(DType::kFloat32, Shape({wide, 0, 1})), Tensor(DType::kFloat32, Shape({0, wide}))},
                 "no shape has the dimensions");
  }
}

}  // namespace weir::conformance
