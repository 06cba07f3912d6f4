// The calls of elementwise ops: shapes that take every path of a kernel, and numbers at the ends of a dtype.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

Tensor ExtremeNumbers(DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const double huge = dtype == DType::kFloat32 ? 3e38 : 1e308;
  const double tiny = dtype == DType::kFloat32 ? 1e-40 : 1e-310;
  return Make(dtype, {20}, {0.0,   -0.0, 1,     -1,  inf,  -inf, std::nan(""), huge, -huge,  tiny,
                            -tiny, 88.5, -88.5, 104, -104, 710,  -750,         0.5,  -0.999, -1.5});
}

OpRecord& OpRecord::Binary(const std::vector<DType>& dtypes, OperandRange range) {
  const auto call = [&](DType d, std::vector<int64_t> x, std::vector<int64_t> y) {
    const double x_low = IsUnsigned(d) ? std::max(range.x_low, 0.0) : range.x_low;
    const double y_low = IsUnsigned(d) ? std::max(range.y_low, std::min(range.y_high, 1.0)) : range.y_low;
    Call({Sample(d, x, x_low, range.x_high, 1), Sample(d, y, y_low, range.y_high, 2)});
  };
  for (DType d : dtypes) {
    call(d, {37}, {37});  // longer than any vector, with a rest
    call(d, {3, 5}, {5});
  }
  const DType d = dtypes.front();
  call(d, {2, 3, 4}, {});
  call(d, {}, {2, 3});
  call(d, {1}, {1, 1});
  call(d, {4, 1}, {4, 3});
  call(d, {4, 1}, {1, 3});
  call(d, {2, 1, 3, 1}, {4, 1, 5});
  call(d, {0, 3}, {1, 3});
  call(d, {0}, {});
  return *this;
}

OpRecord& OpRecord::Unary(const std::vector<DType>& dtypes, double low, double high) {
  for (DType d : dtypes) Call({Sample(d, {37}, low, high)});
  Call({Sample(dtypes.front(), {2, 3}, low, high)});
  Call({Sample(dtypes.front(), {}, low, high)});
  return Call({Sample(dtypes.front(), {0, 2}, low, high)});
}

OpRecord& OpRecord::ExtremesAndOne() {
  Call({.inputs = {ExtremeNumbers(DType::kFloat32), Make(DType::kFloat32, {}, {std::nan("")})},
        .check_gradient = false,
        .label = "nan"});
  return Call({.inputs = {ExtremeNumbers(DType::kFloat64), Make(DType::kFloat64, {}, {1})},
               .check_gradient = false,
               .label = "extremes"});
}

OpRecord& OpRecord::Extremes(const std::vector<DType>& dtypes, double tolerance) {
  for (DType d : dtypes) {
    Call({.inputs = {ExtremeNumbers(d)},
          .check_gradient = false,
          .tolerance = tolerance,
          .label = "extremes"});
  }
  return *this;
}

}  // namespace weir::conformance
