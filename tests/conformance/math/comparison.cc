// Comparison and logic, of numbers, truth values and bits.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using Bits = std::function<int64_t(int64_t, int64_t)>;

void AddBits(Suite& suite, const std::string& op, Bits f) {
  suite.Op(op)
      .Reference(EachPair([f](Number x, Number y) {
        return Number(static_cast<double>(f(static_cast<int64_t>(x.real()), static_cast<int64_t>(y.real()))));
      }))
      .Binary(kIntegers, {-90, 90, -90, 90})
      .Hostile({Ints({1, 2}), Ints({1, 2, 3})}, "Incompatible shapes: [2] vs. [3]");
}

// x times or divided by 2 to the power of y, in the range of the dtype.
void AddShift(Suite& suite, const std::string& op, std::function<double(double, double)> f) {
  suite.Op(op)
      .Reference([f](reference::Call& call) {
        const DType dtype = call.node.input_type(0);
        const double bits = 8.0 * static_cast<double>(DTypeSize(dtype));
        EachRealPair([=](double x, double y) {
          const double shifted = f(x, std::pow(2.0, std::clamp(y, 0.0, bits - 1)));
          const double range = std::pow(2.0, bits);
          if (std::abs(shifted) < range / 2) return shifted;
          const double rest = shifted - std::floor(shifted / range) * range;
          return !IsUnsigned(dtype) && rest >= range / 2 ? rest - range : rest;
        })(call);
      })
      .Binary(kIntegers, {-3, 3, 0, 4})
      .Hostile({Ints({1, 2}), Ints({1, 2, 3})}, "Incompatible shapes: [2] vs. [3]");
}

// Of two operands, in their order.
void AddComparison(Suite& suite, const std::string& op, const std::vector<DType>& dtypes,
                   std::function<bool(const Value&, const Value&)> f) {
  const int64_t wide = int64_t{1} << 40;
  suite.Op(op)
      .Reference(EachPairOfValues([f](const Value& x, const Value& y) { return Value(f(x, y) ? 1.0 : 0.0); }))
      .Binary(dtypes)
      .Hostile({Sample(DType::kFloat32, {2, 3}), Sample(DType::kFloat32, {4})},
               "Incompatible shapes: [2,3] vs. [4]")
      .Hostile({Tensor(DType::kFloat32, Shape({wide, 0, 1})), Tensor(DType::kFloat32, Shape({0, wide}))},
               "no shape has the dimensions");
}

void AddOrder(Suite& suite) {
  const auto is_equal = [](const Value& x, const Value& y) {
    return x.number == y.number && x.text == y.text;
  };
  AddComparison(suite, "Equal", Join({kNumbers, {DType::kBool}}), is_equal);
  AddComparison(suite, "NotEqual", Join({kNumbers, {DType::kBool}}),
                [=](const Value& x, const Value& y) { return !is_equal(x, y); });
  for (const char* op : {"Equal", "NotEqual"}) {
    const Tensor many = Strings({4, 3}, {"a", "b", "c", "b", "b", "a", "", "b", "", "c", "c", "a"});
    suite.Op(op)
        .Call({Strings({3}, {"a", "b", "c"}), Strings({}, {"b"})})
        .Call({many, Strings({3}, {"a", "b", "c"})})
        .Call({many, Strings({4, 1}, {"c", "b", "", "a"})})
        .Call({Strings({4, 1}, {"c", "b", "", "a"}), many});
    for (const DType dtype : kQuantized) {
      suite.Op(op)
          .Call({Sample(dtype, {37}, 0, 3), Sample(dtype, {37}, 0, 3, 2)})
          .Call({Sample(dtype, {2, 3}, 0, 3), Sample(dtype, {3}, 0, 3, 2)});
    }
  }
  AddComparison(suite, "Less", kOrdered, [](const Value& x, const Value& y) { return x.real() < y.real(); });
  AddComparison(suite, "LessEqual", kOrdered,
                [](const Value& x, const Value& y) { return x.real() <= y.real(); });
  AddComparison(suite, "Greater", kOrdered,
                [](const Value& x, const Value& y) { return x.real() > y.real(); });
  AddComparison(suite, "GreaterEqual", kOrdered,
                [](const Value& x, const Value& y) { return x.real() >= y.real(); });
  for (const char* op : {"Less", "Equal", "NotEqual", "GreaterEqual"}) suite.Op(op).ExtremesAndOne();
}

Tensor Bools(std::vector<int64_t> dims, int seed = 1) {
  return Sample(DType::kBool, std::move(dims), -1, 1, seed);
}

void AddLogic(Suite& suite) {
  const auto add = [&](const std::string& op, std::function<bool(bool, bool)> f) {
    suite.Op(op)
        .Reference(EachRealPair([f](double x, double y) { return f(x != 0, y != 0) ? 1 : 0; }))
        .Call({Bools({37}), Bools({37}, 4)})
        .Call({Bools({2, 3}), Bools({3}, 4)})
        .Hostile({Bools({2}), Bools({3})}, "Incompatible shapes: [2] vs. [3]");
  };
  add("LogicalAnd", [](bool x, bool y) { return x && y; });
  add("LogicalOr", [](bool x, bool y) { return x || y; });
  suite.Op("LogicalNot")
      .Reference(EachReal([](double x) { return x == 0 ? 1 : 0; }))
      .Call({Bools({37})})
      .CannotFail();
}

void AddApproximateEqual(Suite& suite) {
  OpRecord& record = suite.Op("ApproximateEqual").Reference([](reference::Call& call) {
    const auto tolerance = static_cast<double>(call.node.attr<float>("tolerance"));
    EachRealPair([tolerance](double x, double y) { return std::abs(x - y) < tolerance ? 1 : 0; })(call);
  });
  for (DType d : {DType::kFloat32, DType::kFloat64}) {
    for (float tolerance : {1.0f, 0.0f, -1.0f}) {
      record.Call({Sample(d, {5, 7}), Sample(d, {5, 7}, -2, 2, 2)}, {{"tolerance", tolerance}});
    }
    record
        .Call({Make(d, {6}, {1, 2, std::nan(""), INFINITY, INFINITY, 3}),
               Make(d, {6}, {1.000001, 2.1, std::nan(""), INFINITY, -INFINITY, 3})})
        .Call({Make(d, {}, {1}), Make(d, {}, {1})});
  }
  record
      .NoKernelFor("T",
                   {DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16, DType::kUint8, DType::kUint16,
                    DType::kUint32, DType::kUint64, DType::kHalf, DType::kBfloat16, DType::kComplex64,
                    DType::kComplex128},
                   "TensorFlow has none either")
      .Hostile({Sample(DType::kFloat32, {2}), Sample(DType::kFloat32, {1})},
               "x and y must be of the same shape. x shape: [2]. y shape: [1]");
}

}  // namespace

void AddComparisonRecords(Suite& suite) {
  AddApproximateEqual(suite);
  AddOrder(suite);
  AddLogic(suite);
  suite.Op("IsFinite").Reference(EachReal([](double x) { return std::isfinite(x) ? 1 : 0; }));
  suite.Op("IsNan").Reference(EachReal([](double x) { return std::isnan(x) ? 1 : 0; }));
  for (const char* op : {"IsFinite", "IsNan"}) {
    suite.Op(op)
        .Unary(kReals, -3, 3)
        .Extremes({DType::kFloat32}, 1e-5)
        .Extremes({DType::kFloat64}, 1e-12)
        .CannotFail();
  }
  suite.Op("IsInf")
      .Reference(EachReal([](double x) { return std::isinf(x) ? 1 : 0; }))
      .Unary(kReals, -3, 3)
      .Extremes({DType::kFloat32, DType::kFloat64})
      .CannotFail();
  suite.Op("Invert")
      .Reference([](reference::Call& call) {
        const DType dtype = call.node.input_type(0);
        const double top = IsUnsigned(dtype) ? std::pow(2.0, 8.0 * DTypeSize(dtype)) : 0;
        EachReal([=](double x) { return top - 1 - x; })(call);
      })
      .Unary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16, DType::kUint8, DType::kUint16,
              DType::kUint32},
             0, 90)
      .Unary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16}, -90, 90)
      .CannotFail();
  suite.Op("PopulationCount")
      .Reference([](reference::Call& call) {
        const size_t num_bits = 8 * DTypeSize(call.node.input_type(0));
        EachReal([=](double x) {
          const auto bits = static_cast<uint64_t>(static_cast<int64_t>(x));
          int ones = 0;
          for (size_t i = 0; i < num_bits; ++i) ones += static_cast<int>(bits >> i & 1);
          return ones;
        })(call);
      })
      .Unary(kIntegers, 0, 90)
      .Unary({DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16}, -90, 90)
      .CannotFail();
  AddBits(suite, "BitwiseAnd", [](int64_t x, int64_t y) { return x & y; });
  AddBits(suite, "BitwiseOr", [](int64_t x, int64_t y) { return x | y; });
  AddBits(suite, "BitwiseXor", [](int64_t x, int64_t y) { return x ^ y; });
  AddShift(suite, "LeftShift", [](double x, double power) { return x * power; });
  AddShift(suite, "RightShift", [](double x, double power) { return std::floor(x / power); });
  // A shift by less than nothing is none, one by more than all bits is one by all but the sign.
  const Tensor shifts = Ints({-1, 31, 32, 100});
  suite.Op("LeftShift").Call({Ints({1, 1, 1, 2}), shifts}).Call({Ints({-1, -1, -1, -1}), shifts});
  suite.Op("RightShift").Call({Ints({8, 8, -8, -8}), shifts});
}

}  // namespace weir::conformance
