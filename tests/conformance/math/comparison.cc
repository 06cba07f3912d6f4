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

}  // namespace

void AddComparisonRecords(Suite& suite) {
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
