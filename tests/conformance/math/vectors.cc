// Ops that make vectors or work on them.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

void Bincount(reference::Call& call) {
  Array& bins = call.outputs[0] = Array({call.in(1)[0].integer()});
  for (int64_t bin = 0; bin < bins.size(); ++bin) {
    for (int64_t i = 0; i < call.in(0).size(); ++i) {
      if (call.in(0)[i].integer() != bin) continue;
      bins[bin] = bins[bin].number + (call.in(2).size() > 0 ? call.in(2)[i].number : Number(1));
    }
  }
}

void LinSpace(reference::Call& call) {
  const int64_t num = call.in(2)[0].integer();
  const double start = call.in(0)[0].real(), stop = call.in(1)[0].real();
  Array& out = call.outputs[0] = Array({num}, Value(start));
  for (int64_t i = 1; i < num; ++i) out[i] = start + (stop - start) * double(i) / double(num - 1);
}

void Cross(reference::Call& call) {
  Array& out = call.outputs[0] = Array(call.in(0).dims());
  const int last = out.rank() - 1;
  for (int64_t i = 0; i < out.size(); ++i) {
    Index first = out.IndexOf(i), second = first;
    first[last] = (first[last] + 1) % 3;
    second[last] = (second[last] + 2) % 3;
    out[i] = call.in(0).at(first).number * call.in(1).at(second).number -
             call.in(0).at(second).number * call.in(1).at(first).number;
  }
}

void NearestNeighbors(reference::Call& call) {
  const Array &points = call.in(0), &centers = call.in(1);
  const int64_t count = std::min(call.in(2)[0].integer(), centers.dim(0));
  call.outputs = {Array({points.dim(0), count}), Array({points.dim(0), count})};
  for (int64_t i = 0; i < points.dim(0); ++i) {
    std::vector<std::pair<double, int64_t>> all;
    for (int64_t j = 0; j < centers.dim(0); ++j) {
      double sum = 0;
      for (int64_t c = 0; c < points.dim(1); ++c)
        sum += std::pow(points.at({i, c}).real() - centers.at({j, c}).real(), 2);
      all.emplace_back(sum, j);
    }
    std::sort(all.begin(), all.end());
    for (int64_t k = 0; k < count; ++k) {
      call.outputs[0].at({i, k}) = static_cast<double>(all[k].second);
      call.outputs[1].at({i, k}) = all[k].first;
    }
  }
}

}  // namespace

void AddVectorsRecords(Suite& suite) {
  OpRecord& bins = suite.Op("Bincount").Reference(Bincount).NoGradient();
  const Tensor values = Ints({3, 1, 4, 1, 5, 9, 2, 6});
  for (DType d : {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64}) {
    bins.Call({values, Int(6), Sample(d, {8}, 1, 3)}).Call({values, Int(12), Sample(d, {0})});
  }
  bins.Call({values, Int(0), Sample(DType::kFloat32, {8})}).Call({Ints({}), Int(3), Ints({})});
  bins.Hostile({Ints({1, -1}), Int(3), Ints({})}, "must not be negative, has -1 at 1");
  bins.Hostile({Ints({1}), Int(-1), Ints({})}, "size is -1");
  bins.Hostile({Ints({1, 2}), Int(3), Ints({1})}, "as many elements as arr");
  bins.Hostile({Ints({1, 2}), Ints({3, 4}), Ints({})}, "size must be a scalar");

  OpRecord& space = suite.Op("LinSpace").Reference(LinSpace).NoGradient();
  for (DType d : kReals) space.Call({Make(d, {}, {1}), Make(d, {}, {3}), Int(5)});
  const Tensor zero = Make(DType::kFloat32, {}, {0}), one = Make(DType::kFloat32, {}, {1});
  space.Call({zero, one, Int(1)}).Call({one, zero, Longs({7}).WithShape(Shape())});
  space.Hostile({zero, one, Int(0)}, "num is 0");
  space.Hostile({zero, one, Ints({1, 2})}, "num must be a scalar");
  space.Hostile({Make(DType::kFloat32, {2}, {0, 1}), one, Int(2)}, "start must be a scalar");
  space.OutOfMemory({zero, one, Longs({int64_t{1} << 50}).WithShape(Shape())});

  OpRecord& cross = suite.Op("Cross").Reference(Cross);
  for (DType d : kOrdered) {
    if (IsUnsigned(d)) {
      cross.Call({Make(d, {3}, {0, 2, 0}), Make(d, {3}, {0, 0, 1})});
    } else {
      cross.Call({Sample(d, {2, 3}, -2, 2, 1), Sample(d, {2, 3}, -2, 2, 2)});
    }
  }
  const auto f = [](std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); };
  cross.Call({f({3}), f({3})}).Call({f({0, 3}), f({0, 3})});
  cross.Hostile({f({2, 2}), f({2, 2})}, "3 elements in the last dimension");
  cross.Hostile({f({2, 3}), f({3})}, "one shape");
  cross.Hostile({f({}), f({})}, "one shape");

  OpRecord& nearest = suite.Op("NearestNeighbors").Reference(NearestNeighbors).ShapeDependsOnValues();
  const Tensor points = Floats({5, 3}), centers = Floats({4, 3}, 7), k = Longs({2}).WithShape(Shape());
  const auto count = [](int64_t k) { return Longs({k}).WithShape(Shape()); };
  nearest.Tolerance(1e-5).NoGradient();
  nearest.Call({points, centers, k})
      .Call({points, centers, count(9)})
      .Call({points, centers, count(0)})
      .Call({points, Empty({0, 3}), k})
      .Call({Empty({2, 0}), Empty({3, 0}), k})
      .Call({Make(DType::kFloat32, {1, 2}, {1, 2}), Make(DType::kFloat32, {4, 2}, {5, 0, 5, 0, 1, 1, 5, 0}),
             k});
  nearest.Hostile({Empty({0, 3}), centers, k}, "Expected points.rows() > 0.")
      .Hostile({points, Floats({4, 2}), k}, "Expected point_dimensions == center_dimensions: 3 vs 2.")
      .Hostile({Floats({3}), centers, k}, "points should be a matrix")
      .Hostile({points, Floats({3}), k}, "centers should be a matrix")
      .Hostile({points, centers, Longs({2})}, "k should be a scalar")
      .Hostile({points, centers, count(-1)}, "k must not be negative, is -1")
      .OutOfMemory({Empty({2, 0}), Empty({int64_t{1} << 40, 0}), count(int64_t{1} << 40)});
}

}  // namespace weir::conformance
