// Cases of the math family.
#include <cmath>
#include <limits>

#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

using D = DType;

const std::vector<D> kReals = {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16};
const std::vector<D> kMain = {D::kFloat32, D::kFloat64, D::kInt32, D::kInt64};
const std::vector<D> kSmallIntegers = {D::kInt8, D::kInt16, D::kUint8, D::kUint16, D::kUint32, D::kUint64};
const std::vector<D> kComplexes = {D::kComplex64, D::kComplex128};

std::vector<D> Join(std::initializer_list<std::vector<D>> lists) {
  std::vector<D> all;
  for (const std::vector<D>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool IsUnsigned(D d) { return d == D::kUint8 || d == D::kUint16 || d == D::kUint32 || d == D::kUint64; }

// What a binary op is given: shapes that take every path (equal, scalars, rows, columns, both sides
// broadcast, empty).
struct Range {
  double x_low = -3, x_high = 3, y_low = -3, y_high = 3;
};

void AddBinary(std::vector<OpCase>* cases, const char* op, const std::vector<D>& dtypes, Range range = {},
               bool gradient = true) {
  const auto add = [&](D d, std::vector<int64_t> x, std::vector<int64_t> y) {
    const double x_low = IsUnsigned(d) ? std::max(range.x_low, 0.0) : range.x_low;
    const double y_low = IsUnsigned(d) ? std::max(range.y_low, std::min(range.y_high, 1.0)) : range.y_low;
    cases->push_back({.op = op,
                      .attrs = {},
                      .inputs = {Sample(d, x, x_low, range.x_high, 1), Sample(d, y, y_low, range.y_high, 2)},
                      .check_gradient = gradient});
  };
  for (D d : dtypes) {
    add(d, {37}, {37});  // longer than any vector, with a rest
    add(d, {3, 5}, {5});
  }
  const D d = dtypes.front();
  add(d, {2, 3, 4}, {});
  add(d, {}, {2, 3});
  add(d, {1}, {1, 1});
  add(d, {4, 1}, {4, 3});
  add(d, {4, 1}, {1, 3});
  add(d, {2, 1, 3, 1}, {4, 1, 5});
  add(d, {0, 3}, {1, 3});
  add(d, {0}, {});
}

void AddUnary(std::vector<OpCase>* cases, const char* op, const std::vector<D>& dtypes, double low,
              double high, bool gradient = true) {
  for (D d : dtypes) {
    cases->push_back(
        {.op = op, .attrs = {}, .inputs = {Sample(d, {37}, low, high)}, .check_gradient = gradient});
  }
  cases->push_back({.op = op,
                    .attrs = {},
                    .inputs = {Sample(dtypes.front(), {2, 3}, low, high)},
                    .check_gradient = gradient});
  cases->push_back(
      {.op = op, .attrs = {}, .inputs = {Sample(dtypes.front(), {}, low, high)}, .check_gradient = gradient});
  cases->push_back({.op = op,
                    .attrs = {},
                    .inputs = {Sample(dtypes.front(), {0, 2}, low, high)},
                    .check_gradient = gradient});
}

// Infinities, NaN, signed zeros, denormal and huge numbers: among ordinary ones and alone.
Tensor Extremes(D dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const double huge = dtype == D::kFloat32 ? 3e38 : 1e308, tiny = dtype == D::kFloat32 ? 1e-40 : 1e-310;
  return Make(dtype, {20}, {0.0,   -0.0, 1,     -1,  inf,  -inf, std::nan(""), huge, -huge,  tiny,
                            -tiny, 88.5, -88.5, 104, -104, 710,  -750,         0.5,  -0.999, -1.5});
}

void AddReduction(std::vector<OpCase>* cases, const char* op, const std::vector<D>& dtypes, double low,
                  double high) {
  const auto add = [&](D d, std::vector<int64_t> dims, Tensor axes, bool keep) {
    cases->push_back(
        {.op = op, .attrs = {{"keep_dims", keep}}, .inputs = {Sample(d, dims, low, high), std::move(axes)}});
  };
  for (D d : dtypes) {
    add(d, {3, 37}, Ints({1}), false);
    add(d, {37, 5}, Ints({0}), true);
  }
  const D d = dtypes.front();
  add(d, {}, Ints({}), false);
  add(d, {2, 3}, Ints({}), false);
  add(d, {2, 3}, Int(-1), false);
  add(d, {2, 3, 4}, Ints({0, 1, 2}), true);
  add(d, {2, 3, 4}, Ints({0, 2}), false);
  add(d, {2, 3, 4, 2}, Ints({-1, 1}), true);
  add(d, {2, 3, 4}, Longs({1}), false);
  add(d, {4, 70}, Ints({0}), false);
  add(d, {1, 3, 1}, Ints({0, 2}), false);
  add(d, {3, 1, 2}, Ints({1}), false);
  add(d, {0, 3}, Ints({1}), false);
}

}  // namespace

void AddMathCases(std::vector<OpCase>* cases) {
  const std::vector<D> numbers = Join({kMain, {D::kHalf, D::kBfloat16}, kSmallIntegers, kComplexes});
  const std::vector<D> ordered = Join({kMain, {D::kHalf, D::kBfloat16}, kSmallIntegers});
  const std::vector<D> inexact = Join({kReals, kComplexes});
  const std::vector<D> signed_numbers =
      Join({kMain, {D::kHalf, D::kBfloat16, D::kInt8, D::kInt16}, kComplexes});
  const Range above_zero = {-3, 3, 1, 3};

  AddBinary(cases, "AddV2", numbers);
  AddBinary(cases, "Add",
            Join({kMain, {D::kHalf, D::kBfloat16, D::kInt8, D::kInt16, D::kUint8}, kComplexes}));
  cases->push_back({.op = "Add", .attrs = {}, .inputs = {Strings({2}, {"a", ""}), Strings({}, {"tail"})}});
  AddBinary(cases, "Sub", numbers, {2, 5, -2, 2});
  AddBinary(cases, "Mul", numbers);
  AddBinary(cases, "Div", numbers, {-9, 9, 1, 3});
  AddBinary(cases, "RealDiv", inexact, above_zero);
  AddBinary(cases, "FloorDiv", ordered, {-9, 9, 1, 3}, false);
  AddBinary(cases, "FloorDiv", {D::kInt32, D::kInt64, D::kInt8, D::kFloat32}, {-9, 9, -3, -1}, false);
  AddBinary(cases, "FloorMod", ordered, {-9, 9, 1, 4}, false);
  AddBinary(cases, "FloorMod", {D::kInt32, D::kInt64, D::kInt8, D::kFloat32}, {-9, 9, -4, -1}, false);
  AddBinary(cases, "DivNoNan", inexact, above_zero);
  cases->push_back({.op = "DivNoNan",
                    .attrs = {},
                    .inputs = {Make(D::kFloat32, {3}, {1, 0, -1}), Make(D::kFloat32, {3}, {0, 0, 2})},
                    .check_gradient = false});
  AddBinary(cases, "Pow", inexact, {0.5, 2, -2, 2});
  AddBinary(cases, "Pow", {D::kInt32, D::kInt64, D::kInt8, D::kInt16}, {-3, 3, 0, 3});
  AddBinary(cases, "Maximum", ordered);
  AddBinary(cases, "Minimum", ordered);
  AddBinary(cases, "SquaredDifference", Join({kMain, {D::kHalf, D::kBfloat16}, kComplexes}));
  for (const char* op : {"Maximum", "Minimum", "Less", "Equal", "NotEqual", "GreaterEqual"}) {
    cases->push_back({.op = op,
                      .attrs = {},
                      .inputs = {Extremes(D::kFloat32), Make(D::kFloat32, {}, {std::nan("")})},
                      .check_gradient = false,
                      .label = "nan"});
    cases->push_back({.op = op,
                      .attrs = {},
                      .inputs = {Extremes(D::kFloat64), Make(D::kFloat64, {}, {1})},
                      .check_gradient = false,
                      .label = "extremes"});
  }
  for (const char* op : {"TanhGrad", "SigmoidGrad"}) {
    for (D d : inexact) {
      cases->push_back(
          {.op = op, .attrs = {}, .inputs = {Sample(d, {19}, -1, 1), Sample(d, {19}, -2, 2, 5)}});
    }
  }
  for (const char* op : {"Equal", "NotEqual"}) {
    AddBinary(cases, op, Join({numbers, {D::kBool}}));
    cases->push_back({.op = op, .attrs = {}, .inputs = {Strings({3}, {"a", "b", "c"}), Strings({}, {"b"})}});
  }
  for (const char* op : {"Less", "LessEqual", "Greater", "GreaterEqual"}) AddBinary(cases, op, ordered);
  for (const char* op : {"LogicalAnd", "LogicalOr"}) {
    cases->push_back(
        {.op = op, .attrs = {}, .inputs = {Sample(D::kBool, {37}, -1, 1), Sample(D::kBool, {37}, -1, 1, 4)}});
    cases->push_back({.op = op,
                      .attrs = {},
                      .inputs = {Sample(D::kBool, {2, 3}, -1, 1), Sample(D::kBool, {3}, -1, 1, 4)}});
  }
  cases->push_back({.op = "LogicalNot", .attrs = {}, .inputs = {Sample(D::kBool, {37}, -1, 1)}});
  for (const std::vector<Tensor>& list : std::vector<std::vector<Tensor>>{
           {Sample(D::kFloat32, {3, 7})},
           {Sample(D::kFloat32, {37}), Sample(D::kFloat32, {37}, -2, 2, 3),
            Sample(D::kFloat32, {37}, -2, 2, 4)},
           {Sample(D::kInt64, {3}), Sample(D::kInt64, {3}, 0, 9)},
           {Sample(D::kHalf, {3}), Sample(D::kHalf, {3}), Sample(D::kHalf, {3})}}) {
    cases->push_back({.op = "AddN", .attrs = {}, .inputs = {list}});
  }

  AddUnary(cases, "Neg", signed_numbers, -3, 3);
  AddUnary(cases, "Square", signed_numbers, -3, 3);
  AddUnary(cases, "Sqrt", inexact, 0.1, 4);
  AddUnary(cases, "Rsqrt", inexact, 0.1, 4);
  AddUnary(cases, "Reciprocal", inexact, 0.5, 4);
  AddUnary(cases, "Reciprocal", {D::kInt32, D::kInt64, D::kInt8, D::kInt16}, 1, 3, false);
  AddUnary(cases, "Exp", inexact, -3, 3);
  AddUnary(cases, "Log", inexact, 0.1, 9);
  AddUnary(cases, "Log1p", inexact, -0.9, 9);
  AddUnary(cases, "Abs", Join({kMain, {D::kHalf, D::kBfloat16, D::kInt8, D::kInt16}}), -3, 3);
  AddUnary(cases, "Sign", signed_numbers, -3, 3, false);
  AddUnary(cases, "Floor", kReals, -3, 3, false);
  AddUnary(cases, "Tanh", inexact, -1.5, 1.5);
  AddUnary(cases, "Sigmoid", inexact, -3, 3);
  AddUnary(cases, "IsFinite", kReals, -3, 3);
  AddUnary(cases, "IsNan", kReals, -3, 3);
  for (const char* op : {"Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Log", "Log1p", "Abs", "Sign",
                         "Floor", "Tanh", "Sigmoid", "IsFinite", "IsNan"}) {
    for (D d : {D::kFloat32, D::kFloat64}) {
      // Denormal numbers lose digits, so 1/x and 1/sqrt(x) of them are less exact.
      cases->push_back({.op = op,
                        .attrs = {},
                        .inputs = {Extremes(d)},
                        .check_gradient = false,
                        .tolerance = d == D::kFloat32 ? 1e-5 : 1e-12,
                        .label = "extremes"});
    }
  }

  AddReduction(cases, "Sum", numbers, 0, 3);
  AddReduction(cases, "Mean", Join({kReals, kComplexes}), -3, 3);
  AddReduction(cases, "Prod", Join({{D::kFloat64, D::kFloat32, D::kHalf, D::kBfloat16}, kComplexes}), 0.8,
               1.2);
  AddReduction(cases, "Prod",
               {D::kInt32, D::kInt64, D::kInt8, D::kUint8, D::kInt16, D::kUint16, D::kUint32, D::kUint64}, 1,
               1.4);
  AddReduction(cases, "Max", ordered, 0, 9);
  AddReduction(cases, "Min", ordered, 0, 9);
  AddReduction(cases, "All", {D::kBool}, 0, 3);
  AddReduction(cases, "Any", {D::kBool}, -0.55, 0.5);
  cases->push_back({.op = "Sum",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {70000}, -1, 1), Ints({0})},
                    .tolerance = 1e-4});
  cases->push_back({.op = "Sum",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {600, 130}, -1, 1), Ints({0})},
                    .tolerance = 1e-4});
  cases->push_back({.op = "Mean", .attrs = {}, .inputs = {Sample(D::kInt32, {10}, 0, 9), Ints({})}});
  for (const char* op : {"Sum", "Prod", "Max", "Min", "Mean"}) {
    cases->push_back(
        {.op = op, .attrs = {}, .inputs = {Sample(D::kFloat32, {2, 0}), Ints({1})}, .label = "empty"});
    cases->push_back({.op = op,
                      .attrs = {},
                      .inputs = {Extremes(D::kFloat32), Ints({0})},
                      .check_gradient = false,
                      .label = "nan"});
  }
  for (D d : Join({ordered, {D::kBool}})) {
    cases->push_back({.op = "ArgMax", .attrs = {}, .inputs = {Sample(d, {3, 7}, 0, 5), Int(1)}});
  }
  for (D d : {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16}) {
    const double nan = std::nan("");
    cases->push_back({.op = "ArgMax",
                      .attrs = {},
                      .inputs = {Make(d, {4, 2}, {nan, 1, 1, nan, nan, nan, 2, 1}), Int(1)},
                      .label = "nan"});
  }
  for (D out : {D::kInt32, D::kInt64, D::kInt16, D::kUint16}) {
    cases->push_back({.op = "ArgMax",
                      .attrs = {{"output_type", out}},
                      .inputs = {Sample(D::kFloat32, {2, 3, 4}), Int(-2)}});
  }
  for (D d : kReals) cases->push_back({.op = "L2Loss", .attrs = {}, .inputs = {Sample(d, {3, 17}, -1, 1)}});
  cases->push_back({.op = "L2Loss",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {70000}, -1, 1)},
                    .check_gradient = false,
                    .tolerance = 1e-5});

  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      for (D d : Join({kMain, {D::kHalf, D::kBfloat16}})) {
        cases->push_back(
            {.op = "MatMul",
             .attrs = {{"transpose_a", ta}, {"transpose_b", tb}},
             .inputs = {Sample(d, ta ? std::vector<int64_t>{5, 3} : std::vector<int64_t>{3, 5}, -1, 1, 1),
                        Sample(d, tb ? std::vector<int64_t>{4, 5} : std::vector<int64_t>{5, 4}, -1, 1, 2)},
             .tolerance = d == D::kHalf       ? 5e-3
                          : d == D::kBfloat16 ? 3e-2
                                              : 1e-5});
      }
    }
  }
  // More than one tile in every direction, none of them whole at the end.
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      cases->push_back(
          {.op = "MatMul",
           .attrs = {{"transpose_a", ta}, {"transpose_b", tb}},
           .inputs = {Sample(D::kFloat64, ta ? std::vector<int64_t>{263, 71} : std::vector<int64_t>{71, 263},
                             -1, 1, 1),
                      Sample(D::kFloat64, tb ? std::vector<int64_t>{53, 263} : std::vector<int64_t>{263, 53},
                             -1, 1, 2)},
           .check_gradient = false,
           .tolerance = 1e-12,
           .label = "tiles"});
    }
  }
  cases->push_back(
      {.op = "MatMul", .attrs = {}, .inputs = {Sample(D::kFloat64, {2, 0}), Sample(D::kFloat64, {0, 3})}});
  cases->push_back(
      {.op = "MatMul", .attrs = {}, .inputs = {Sample(D::kFloat64, {7, 0}), Sample(D::kFloat64, {0, 3})}});
  cases->push_back(
      {.op = "MatMul", .attrs = {}, .inputs = {Sample(D::kFloat64, {1, 30}), Sample(D::kFloat64, {30, 41})}});
  cases->push_back(
      {.op = "MatMul", .attrs = {}, .inputs = {Sample(D::kFloat32, {2, 0}), Sample(D::kFloat32, {0, 3})}});
  cases->push_back({.op = "MatMul",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {33, 70}), Sample(D::kFloat32, {70, 19}, -1, 1, 7)},
                    .tolerance = 1e-4});
}

}  // namespace weir::conformance
