// Sums and their like along axes, positions of extremes, norms.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// Calls of dtypes in turn, and shapes that take every path.
void AddCalls(OpRecord& record, const std::vector<DType>& dtypes, double low, double high) {
  const auto call = [&](DType d, std::vector<int64_t> dims, Tensor axes, bool keep_dims) {
    record.Call({Sample(d, std::move(dims), low, high), std::move(axes)}, {{"keep_dims", keep_dims}});
  };
  for (DType d : dtypes) {
    call(d, {3, 37}, Ints({1}), false);
    call(d, {37, 5}, Ints({0}), true);
  }
  const DType d = dtypes.front();
  call(d, {}, Ints({}), false);
  call(d, {2, 3}, Ints({}), false);
  call(d, {2, 3}, Int(-1), false);
  call(d, {2, 3, 4}, Ints({0, 1, 2}), true);
  call(d, {2, 3, 4}, Ints({0, 2}), false);
  call(d, {2, 3, 4, 2}, Ints({-1, 1}), true);
  call(d, {2, 3, 4}, Longs({1}), false);
  call(d, {4, 70}, Ints({0}), false);
  call(d, {1, 3, 1}, Ints({0, 2}), false);
  call(d, {3, 1, 2}, Ints({1}), false);
  call(d, {0, 3}, Ints({1}), false);
}

void AddReductions(Suite& suite) {
  const auto sum = [](Number x, Number y) { return x + y; };
  const auto product = [](Number x, Number y) { return x * y; };
  const auto f = [](std::vector<int64_t> dims, double low, double high) {
    return Sample(DType::kFloat32, std::move(dims), low, high);
  };
  AddCalls(suite.Op("Sum").Reference(ReduceWith(0, sum)), kNumbers, 0, 3);
  suite.Op("Sum")
      .Tolerance(1e-4)
      .Call({f({70000}, -1, 1), Ints({0})})
      .Call({f({600, 130}, -1, 1), Ints({0})})
      .Tolerance(0);
  for (DType d : {DType::kBfloat16, DType::kInt64})  // more rows than are reduced at a time
    suite.Op("Max").NoGradient().Call({Sample(d, {9001, 9}, -9, 9), Ints({0})});
  AddCalls(suite.Op("Mean").Reference(
               ReduceWith(0, sum, [](Number x, int64_t count) { return x / static_cast<double>(count); })),
           kInexact, -3, 3);
  suite.Op("Mean").Call({Sample(DType::kInt32, {10}, 0, 9), Ints({})});
  OpRecord& prod = suite.Op("Prod").Reference(ReduceWith(1, product));
  AddCalls(prod, Join({{DType::kFloat64, DType::kFloat32, DType::kHalf, DType::kBfloat16}, kComplexes}), 0.8,
           1.2);
  AddCalls(prod,
           {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16,
            DType::kUint32, DType::kUint64},
           1, 1.4);
  AddCalls(suite.Op("Max").Reference(ReduceWith(-kInfinity, Largest)), kOrdered, 0, 9);
  AddCalls(suite.Op("Min").Reference(ReduceWith(kInfinity, Least)), kOrdered, 0, 9);
  AddCalls(suite.Op("All").Reference(ReduceWith(1, Least)), {DType::kBool}, 0, 3);
  AddCalls(suite.Op("Any").Reference(ReduceWith(0, Largest)), {DType::kBool}, -0.55, 0.5);
  for (const char* op : {"Sum", "Prod", "Max", "Min", "Mean"}) {
    suite.Op(op)
        .Call({.inputs = {f({2, 0}, -2, 2), Ints({1})}, .label = "empty"})
        .Call(
            {.inputs = {ExtremeNumbers(DType::kFloat32), Ints({0})}, .check_gradient = false, .label = "nan"})
        .Hostile({f({2, 3}, -2, 2), Ints({2})}, "reduction_indices[0] = 2 is not in [-2, 2)")
        .Hostile({f({2, 3}, -2, 2), Ints({0, -2})}, "twice")
        .Hostile({f({}, -2, 2), Longs({std::numeric_limits<int64_t>::min()})}, "is not in [0, 0)")
        .OutOfMemory({Tensor(DType::kFloat32, Shape({int64_t{1} << 40, 0})), Ints({1})});
  }
  for (const char* op : {"All", "Any"}) {
    const Tensor bools = Make(DType::kBool, {2}, {1, 0});
    suite.Op(op)
        .Hostile({bools, Int(1)}, "reduction_indices[0] = 1 is not in [-1, 1)")
        .Hostile({bools, Ints({0, 0})}, "twice");
  }
}

// Where the first of the largest elements is; NaN is no number.
void ArgMax(reference::Call& call) {
  const Array& input = call.in(0);
  const int axis = reference::Call::Axis(call.in(1)[0].integer(), input.rank());
  Index dims = input.dims();
  dims.erase(dims.begin() + axis);
  Array& out = call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < out.size(); ++i) {
    Index index = out.IndexOf(i);
    index.insert(index.begin() + axis, 0);
    Index best = index;
    for (int64_t k = 1; k < input.dim(axis); ++k) {
      index[axis] = k;
      const double value = input.at(index).real(), largest = input.at(best).real();
      if (value > largest || (std::isnan(largest) && !std::isnan(value))) best = index;
    }
    out[i] = static_cast<double>(best[axis]);
  }
}

void AddArgMax(Suite& suite) {
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  OpRecord& record = suite.Op("ArgMax").Reference(ArgMax);
  for (DType d : Join({kOrdered, {DType::kBool}})) record.Call({Sample(d, {3, 7}, 0, 5), Int(1)});
  for (DType d : kReals) {
    const double nan = std::nan("");
    record.Call({.inputs = {Make(d, {4, 2}, {nan, 1, 1, nan, nan, nan, 2, 1}), Int(1)}, .label = "nan"});
  }
  for (DType out : {DType::kInt32, DType::kInt64, DType::kInt16, DType::kUint16}) {
    record.Call({f({2, 3, 4}), Int(-2)}, {{"output_type", out}});
  }
  record.Hostile({f({2, 0}), Int(1)}, "is empty in shape [2,0]")
      .Hostile({f({2, 3}), Int(-3)}, "dimension = -3 is not in [-2, 2)")
      .Hostile({f({}), Int(0)}, "dimension = 0 is not in [0, 0)")
      .Hostile({f({2, 3}), Ints({0, 1})}, "dimension must be a scalar");
}

void AddL2Loss(Suite& suite) {
  OpRecord& record = suite.Op("L2Loss").CannotFail().Reference([](reference::Call& call) {
    double sum = 0;
    for (int64_t i = 0; i < call.in(0).size(); ++i) sum += std::norm(call.in(0)[i].number);
    call.outputs[0] = Array({}, Value(sum / 2));
  });
  for (DType d : kReals) record.Call({Sample(d, {3, 17}, -1, 1)});
  record.NoGradient().Tolerance(1e-5).Call({Sample(DType::kFloat32, {70000}, -1, 1)});
}

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
  AddReductions(suite);
  AddArgMax(suite);
  AddL2Loss(suite);
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
