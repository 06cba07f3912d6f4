// Regression that does not rise, as the minimum of maxima of means.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;

// y[i] = min over a <= i of the max over b >= i of the mean of x[a..b] (Robertson, Wright, Dykstra, "Order
// Restricted Statistical Inference", 1988).
std::vector<double> MinMax(const std::vector<double>& x) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    double least = kInfinity;
    for (size_t a = 0; a <= i; ++a) {
      double sum = 0, largest = -kInfinity;
      for (size_t b = a; b < x.size(); ++b) {
        sum += x[b];
        if (b >= i) largest = std::max(largest, sum / static_cast<double>(b - a + 1));
      }
      least = std::min(least, largest);
    }
    y.push_back(least);
  }
  return y;
}

// A segment ends where as much has been given as was taken.
void IsotonicRegression(reference::Call& call) {
  const Array& input = call.in(0);
  call.outputs = {Array(input.dims()), Array(input.dims())};
  const int64_t length = input.rank() == 0 ? 1 : input.dims().back();
  for (int64_t row = 0; row < input.size(); row += length) {
    std::vector<double> x;
    for (int64_t i = 0; i < length; ++i) x.push_back(input[row + i].real());
    const std::vector<double> y = MinMax(x);
    double rest = 0, segment = 0;
    for (int64_t i = 0; i < length; ++i) {
      call.outputs[0][row + i] = y[i];
      call.outputs[1][row + i] = segment;
      rest += x[i] - y[i];
      if (std::abs(rest) < 1e-9) ++segment;
    }
  }
}

}  // namespace

void AddIsotonicRegressionRecords(Suite& suite) {
  OpRecord& record =
      suite.Op("IsotonicRegression")
          .Reference(IsotonicRegression)
          .SomeCombinationsOnly("TensorFlow has none for other pairs either")
          .NoKernelFor("T", {D::kUint8, D::kUint16, D::kUint32, D::kUint64}, "TensorFlow has none either");
  const auto output_of = [](D d) {
    if (d == D::kInt8 || d == D::kInt16) return D::kFloat32;
    return d == D::kInt32 || d == D::kInt64 ? D::kFloat64 : d;
  };
  const AttrMap of_doubles = {{"output_dtype", D::kFloat64}};
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{5}, {}, {2, 3, 4}, {3, 1}}) {
    record.Call({Sample(D::kFloat64, dims)}, of_doubles);
  }
  record.Call({Make(D::kFloat64, {2, 6}, {3.5, 1, 2, 5, 4, 0, 1, 2, 3, 5, 8, 13})}, of_doubles);
  record.NoGradient();  // of others: the check takes doubles, which have no kernel that gives them
  for (const D d : Join({kReals, {D::kInt8, D::kInt16, D::kInt32, D::kInt64}})) {
    record.Call({Make(d, {2, 6}, {3, 1, 2, 5, 4, 0, 1, 2, 3, 5, 8, 13})}, {{"output_dtype", output_of(d)}})
        .Call({Sample(d, {4, 9}, -50, 50)}, {{"output_dtype", output_of(d)}});
  }
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{5}, {}, {2, 3, 4}, {0, 3}, {2, 0}, {3, 1}}) {
    record.Call({Floats(dims)});
  }
  record.Call({Make(D::kFloat32, {3, 4}, {1, 1, 2, 2, 1, 1, 1, 1, 4, 3, 2, 2})})
      .Hostile({Empty({0, kWide})}, "do not fit in int32");
}

}  // namespace weir::conformance
