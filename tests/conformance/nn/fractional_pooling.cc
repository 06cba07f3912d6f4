// Pooling by windows whose sizes vary.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// What TensorFlow draws for the seeds 1 and 2, the rows' sequence first and then the columns', by the sizes
// of the image and whether it is pseudo-random.
using Drawn = std::pair<Index, Index>;
const std::map<std::tuple<int64_t, int64_t, bool>, Drawn>& DrawnSequences() {
  static const auto* const kDrawn = new std::map<std::tuple<int64_t, int64_t, bool>, Drawn>{
      {{5, 6, false}, {{0, 1, 3, 5}, {0, 1, 2, 4, 6}}},
      {{5, 6, true}, {{0, 2, 3, 5}, {0, 1, 3, 4, 6}}},
      {{11, 9, false}, {{0, 2, 5, 8, 11}, {0, 3, 6, 9}}},
      {{11, 9, true}, {{0, 3, 5, 8, 11}, {0, 3, 6, 9}}},
      {{20, 13, false}, {{0, 2, 4, 6, 8, 10, 11, 13, 14, 16, 18, 20}, {0, 1, 3, 5, 7, 9, 11, 13}}},
      {{20, 13, true}, {{0, 2, 3, 5, 7, 9, 11, 13, 14, 16, 18, 20}, {0, 2, 4, 5, 7, 9, 11, 13}}},
  };
  return *kDrawn;
}

// Calls visit(output's index, input's index, elements of the window) for each element of each window.
void ForEachElement(const Index& dims, const Index& rows, const Index& columns, bool overlaps,
                    const std::function<void(const Index&, const Index&, double)>& visit) {
  const auto end = [&](const Index& sequence, size_t i, int64_t length) {
    return std::min(sequence[i + 1] + (overlaps ? 1 : 0), length);
  };
  for (size_t r = 0; r + 1 < rows.size(); ++r) {
    for (size_t c = 0; c + 1 < columns.size(); ++c) {
      const int64_t bottom = end(rows, r, dims[1]), right = end(columns, c, dims[2]);
      const auto count = static_cast<double>((bottom - rows[r]) * (right - columns[c]));
      for (int64_t n = 0; n < dims[0]; ++n)
        for (int64_t y = rows[r]; y < bottom; ++y)
          for (int64_t x = columns[c]; x < right; ++x)
            for (int64_t d = 0; d < dims[3]; ++d)
              visit({n, static_cast<int64_t>(r), static_cast<int64_t>(c), d}, {n, y, x, d}, count);
    }
  }
}

bool IsWhole(const Call& call, int input) {
  const D d = call.node.input_type(input);
  return d == D::kInt32 || d == D::kInt64;
}

void Pool(Call& call) {
  const bool is_max = call.node.op_name() == "FractionalMaxPool";
  const Array& x = call.in(0);
  const Drawn& drawn = DrawnSequences().at({x.dim(1), x.dim(2), call.flag("pseudo_random")});
  const Index& dims = x.dims();
  Array pooled({dims[0], static_cast<int64_t>(drawn.first.size()) - 1,
                static_cast<int64_t>(drawn.second.size()) - 1, dims[3]},
               is_max ? -kInfinity : 0.0);
  Array counts(pooled.dims());
  ForEachElement(dims, drawn.first, drawn.second, call.flag("overlapping"),
                 [&](const Index& out, const Index& in, double count) {
                   const Number value = x.at(in).number;
                   Number& to = pooled.at(out).number;
                   to = is_max ? std::max(to.real(), value.real()) : to + value;
                   counts.at(out) = count;
                 });
  for (int64_t i = 0; !is_max && i < pooled.size(); ++i) {
    const double mean = pooled[i].real() / counts[i].real();
    pooled[i] = IsWhole(call, 0) ? std::trunc(mean) : mean;
  }
  call.outputs = {pooled, Vector(drawn.first), Vector(drawn.second)};
}

void MaxGradient(Call& call) {
  const Array& x = call.in(0);
  const Array& gradient = call.in(2);
  Array at(gradient.dims(), -1.0);
  ForEachElement(x.dims(), call.in(3).integers(), call.in(4).integers(), call.flag("overlapping"),
                 [&](const Index& out, const Index& in, double) {
                   Value& best = at.at(out);
                   if (best.real() < 0 || x[best.integer()].real() < x.at(in).real())
                     best = static_cast<double>(x.PositionOf(in));
                 });
  call.outputs[0] = Array(x.dims());
  for (int64_t i = 0; i < at.size(); ++i) call.outputs[0][at[i].integer()].number += gradient[i].number;
}

void MeanGradient(Call& call) {
  const Index dims = call.in(0).integers();
  const Array& gradient = call.in(1);
  // Of longer sequences the first ones count.
  Index rows = call.in(2).integers(), columns = call.in(3).integers();
  rows.resize(gradient.dim(1) + 1);
  columns.resize(gradient.dim(2) + 1);
  Array sums(dims);
  ForEachElement(dims, rows, columns, call.flag("overlapping"),
                 [&](const Index& out, const Index& in, double count) {
                   sums.at(in).number += gradient.at(out).number / count;
                 });
  for (int64_t i = 0; IsWhole(call, 1) && i < sums.size(); ++i) sums[i] = std::trunc(sums[i].real());
  call.outputs[0] = sums;
}

AttrMap PoolAttrs(float ratio, bool is_pseudo_random, bool overlaps) {
  return {{"pooling_ratio", std::vector<float>{1, ratio, ratio, 1}},
          {"pseudo_random", is_pseudo_random},
          {"overlapping", overlaps},
          {"deterministic", true},
          {"seed", int64_t{1}},
          {"seed2", int64_t{2}}};
}

AttrMap PoolAttrs(std::vector<float> ratios) {
  AttrMap attrs = PoolAttrs(1, false, false);
  attrs["pooling_ratio"] = std::move(ratios);
  return attrs;
}

const std::vector<D> kTypes = {D::kFloat32, D::kFloat64, D::kInt32, D::kInt64};

void AddPool(Suite& suite, const std::string& op) {
  OpRecord& record = suite.Op(op).Reference(Pool);
  for (const D d : kTypes) {
    for (const bool is_pseudo_random : {false, true}) {
      for (const bool overlaps : {false, true}) {
        record.Call({Sample(d, {2, 5, 6, 3}, -50, 50)}, PoolAttrs(1.5f, is_pseudo_random, overlaps));
        record.Call({Sample(d, {1, 11, 9, 1}, -50, 50)}, PoolAttrs(2.3f, is_pseudo_random, overlaps));
      }
    }
  }
  record.Call({Floats({1, 20, 13, 2})}, PoolAttrs(1.732f, false, true));
  record.Call({Floats({1, 20, 13, 2})}, PoolAttrs(1.732f, true, false));
  const AttrMap good = PoolAttrs(1.5f, false, false);
  record.Hostile({Floats({5, 6, 3})}, "4", good);
  for (const std::vector<int64_t>& dims : std::vector<Index>{{0, 5, 6, 3}, {2, 1, 6, 3}, {2, 5, 6, 0}})
    record.Hostile({Floats(dims)}, "Pooling ratio is higher than input dimension size for dimension", good);
  const float nan = std::nanf("");
  for (const std::vector<float>& ratios : std::vector<std::vector<float>>{{1, 0.5f, 1, 1}, {1, nan, 1, 1}})
    record.Hostile({Floats({2, 5, 6, 3})},
                   "pooling_ratio cannot be smaller than 1, got: ", PoolAttrs(ratios));
  record.Hostile({Floats({2, 5, 6, 3})}, "pooling_ratio field must specify 4 dimensions",
                 PoolAttrs({1, 1, 1, 1, 1}));
  record.Hostile({Floats({2, 5, 6, 3})}, "not yet supported on the batch nor channel dimension",
                 PoolAttrs({1, 1.5f, 1.5f, 2}), absl::StatusCode::kUnimplemented);
  AttrMap with_seed = good;
  with_seed["deterministic"] = false;
  record.Hostile({Floats({2, 5, 6, 3})}, "Both seed and seed2 should be 0 if deterministic is false.",
                 with_seed);
}

// Hostile sequences in place of inputs `first` and the next of a good call on images [2, 5, 6, 3].
void AddHostileSequences(OpRecord& record, const std::vector<CaseInput>& good, int first) {
  const auto with = [&](int index, Tensor sequence) {
    std::vector<CaseInput> inputs = good;
    inputs[index] = CaseInput(std::move(sequence));
    return inputs;
  };
  record.Hostile(with(first, Longs({0, 1, 3})),
                 "row_pooling_sequence must be a vector of at least 4 elements");
  record.Hostile(with(first + 1, Make(D::kInt64, {}, {0})), "col_pooling_sequence must be a vector");
  for (const std::vector<int64_t>& broken : std::vector<Index>{{-1, 1, 3, 5},
                                                               {0, 3, 1, 5},
                                                               {0, 1, 1, 5},
                                                               {5, 6, 7, 8},
                                                               {0, 1, kShortest, 5},
                                                               {kShortest, 0, 1, 5}}) {
    record.Hostile(with(first, Longs(broken)), "Row sequence tensor values must not be negative");
  }
}

void AddGradients(Suite& suite) {
  OpRecord& record = suite.Op("FractionalMaxPoolGrad").Reference(MaxGradient).NoGradient();
  OpRecord& mean = suite.Op("FractionalAvgPoolGrad").Reference(MeanGradient).NoGradient();
  const Tensor rows = Longs({0, 1, 3, 5}), columns = Longs({0, 1, 2, 4, 6}), sizes = Longs({2, 5, 6, 3});
  // What FractionalMaxPool makes of it.
  const auto pooled = [](const Tensor& x, bool overlaps) {
    const Array image = Array::FromTensor(x);
    Array largest({2, 3, 4, 3}, -kInfinity);
    ForEachElement(image.dims(), {0, 1, 3, 5}, {0, 1, 2, 4, 6}, overlaps,
                   [&](const Index& out, const Index& in, double) {
                     Number& to = largest.at(out).number;
                     to = std::max(to.real(), image.at(in).real());
                   });
    return largest.ToTensor(x.dtype());
  };
  for (const D d : kTypes) {
    for (const bool overlaps : {false, true}) {
      const AttrMap attrs = {{"overlapping", overlaps}};
      // Whole numbers, which are often equal.
      const Tensor x = Sample(D::kInt32, {2, 5, 6, 3}, -3, 3);
      const Tensor image = Array::FromTensor(x).ToTensor(d), gradient = Sample(d, {2, 3, 4, 3}, -40, 40, 2);
      record.Call({image, pooled(image, overlaps), gradient, rows, columns}, attrs);
      mean.Call({sizes, gradient, rows, columns}, attrs);
    }
  }
  // A longer sequence, and one that ends before and after the image.
  mean.Call({sizes, Floats({2, 2, 4, 3}), rows, Longs({0, 1, 2, 4, 9})});
  const Tensor x = Floats({2, 5, 6, 3}), gradient = Floats({2, 3, 4, 3});
  const std::vector<CaseInput> good = {x, pooled(x, false), gradient, rows, columns};
  AddHostileSequences(record, good, 3);
  AddHostileSequences(mean, {sizes, gradient, rows, columns}, 2);
  record.Hostile({x, gradient, gradient, rows, columns}, "orig_output is not what orig_input is pooled to");
  record.Hostile({x, Floats({2, 3, 4, 2}), gradient, rows, columns}, "must have one shape");
  record.Hostile({x, Floats({2, 3, 4, 2}), Floats({2, 3, 4, 2}), rows, columns},
                 "equal batches and channels");
  record.Hostile({Floats({5, 6, 3}), pooled(x, false), gradient, rows, columns}, "4");
  mean.Hostile({Longs({2, 5, 6}), gradient, rows, columns}, "4");
  mean.Hostile({Longs({1, 5, 6, 3}), gradient, rows, columns}, "equal batches and channels");
  mean.Hostile({Longs({2, -5, 6, 3}), gradient, rows, columns}, "-5");
  mean.Hostile({Longs({2, kWide, kWide, 3}), gradient, rows, columns}, "no shape has the dimensions");
  mean.OutOfMemory({Longs({2, kWide / 64, 6, 3}), gradient, rows, columns});
}

}  // namespace

void AddFractionalPoolingRecords(Suite& suite) {
  AddPool(suite, "FractionalMaxPool");
  AddPool(suite, "FractionalAvgPool");
  AddGradients(suite);
}

}  // namespace weir::conformance
