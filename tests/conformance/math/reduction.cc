// Positions of extremes, and norms.
#include <cmath>
#include <functional>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

void ArgMin(reference::Call& call) {
  const Array& input = call.in(0);
  const int axis = reference::Call::Axis(call.in(1)[0].integer(), input.rank());
  Index dims = input.dims();
  dims.erase(dims.begin() + axis);
  Array& out = call.outputs[0] = Array(dims);
  ForEachSlice(input, axis, [&](Index at) {
    Index best = at;
    for (at[axis] = 1; at[axis] < input.dim(axis); ++at[axis]) {
      const double value = input.at(at).real(), least = input.at(best).real();
      if (value < least || (std::isnan(least) && !std::isnan(value))) best = at;  // NaN is no number
    }
    Index position = at;
    position.erase(position.begin() + axis);
    out.at(position) = static_cast<double>(best[axis]);
  });
}

}  // namespace

void AddReductionRecords(Suite& suite) {
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  OpRecord& least = suite.Op("ArgMin").Reference(ArgMin);
  for (DType d : Join({kOrdered, {DType::kBool}})) least.Call({Sample(d, {3, 7}, 0, 5), Int(1)});
  for (DType d : kReals) {
    const double nan = std::nan("");
    least.Call({Make(d, {4, 2}, {nan, 1, 1, nan, nan, nan, 2, 1}), Int(1)});
  }
  for (DType out : {DType::kInt32, DType::kInt64})
    least.Call({f({2, 3, 4}), Int(-2)}, {{"output_type", out}});
  least.Call({f({0, 3}), Int(1)});
  least.Hostile({f({2, 0}), Int(1)}, "is empty in shape [2,0]");
  least.Hostile({f({2, 3}), Int(-3)}, "dimension = -3 is not in [-2, 2)");
  least.Hostile({f({}), Int(0)}, "dimension = 0 is not in [0, 0)");
  least.Hostile({f({2, 3}), Ints({0, 1})}, "dimension must be a scalar");

  OpRecord& norm = suite.Op("EuclideanNorm").Reference([](reference::Call& call) {
    const bool is_whole = !IsFloating(call.node.input_type(0)) && !IsComplex(call.node.input_type(0));
    ReduceWith(
        0, [](Number sum, Number x) { return sum + std::norm(x); },
        [=](Number sum, int64_t) {
          const double root = std::sqrt(sum.real());
          return Number(is_whole ? std::trunc(root) : root);
        })(call);
  });
  for (DType d : kNumbers) {
    const double low = IsUnsigned(d) ? 0 : -3;
    norm.Tolerance(d == DType::kHalf ? 5e-3 : d == DType::kBfloat16 ? 2e-2 : 1e-5);
    norm.Call({Sample(d, {3, 7}, low, 3), Ints({1})})
        .Call({Sample(d, {4, 5}, low, 3), Int(0)}, {{"keep_dims", true}});
  }
  norm.Tolerance(1e-5)
      .Call({f({}), Ints({})})
      .Call({f({2, 3}), Ints({})})
      .Call({f({2, 3, 4}), Longs({0, 2})});
  norm.Call({f({2, 3, 4}), Ints({-1, 1})}, {{"keep_dims", true}}).Call({f({1, 3}), Ints({0})});
  norm.NoGradient().Call({f({2, 0}), Ints({1})}).Call({f({0, 3}), Ints({1})});
  norm.Hostile({f({2, 3}), Ints({2})}, "reduction_indices[0] = 2 is not in [-2, 2)");
  norm.Hostile({f({2, 3}), Ints({0, -2})}, "twice");
  norm.OutOfMemory({Tensor(DType::kFloat32, Shape({int64_t{1} << 40, 0})), Ints({1})});
}

}  // namespace weir::conformance
