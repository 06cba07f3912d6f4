// Ops that count how often integers occur, and that sort numbers into bins.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
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

// Adds element i of the integers to its place in a row of the counts.
void Count(const Call& call, const Array& integers, const Array& weights, int64_t i, int64_t first,
           int64_t size, Array& counts) {
  const int64_t at = integers[i].integer();
  if (at >= size) return;
  Value& count = counts[first + at];
  if (call.flag("binary_output")) {
    count = 1.0;
  } else {
    count.number += weights.size() == 0 ? Number(1) : weights[i].number;
  }
}

void DenseBincount(Call& call) {
  const Array& input = call.in(0);
  const int64_t size = call.in(1)[0].integer();
  const bool is_matrix = input.rank() == 2;
  Array counts(is_matrix ? Index{input.dim(0), size} : Index{size});
  for (int64_t i = 0; i < input.size(); ++i) {
    Count(call, input, call.in(2), i, is_matrix ? i / input.dim(1) * size : 0, size, counts);
  }
  call.outputs[0] = counts;
}

void SparseBincount(Call& call) {
  const int64_t size = call.in(3)[0].integer(), rank = call.in(2).size();
  Array counts(rank > 1 ? Index{call.in(2)[0].integer(), size} : Index{size});
  for (int64_t i = 0; i < call.in(1).size(); ++i) {
    const int64_t row = rank > 1 ? call.in(0)[i * rank].integer() : 0;
    Count(call, call.in(1), call.in(4), i, row * size, size, counts);
  }
  call.outputs[0] = counts;
}

void RaggedBincount(Call& call) {
  const int64_t size = call.in(2)[0].integer(), rows = call.in(0).size() - 1;
  Array counts({rows, size});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = call.in(0)[row].integer(); i < call.in(0)[row + 1].integer(); ++i) {
      Count(call, call.in(1), call.in(3), i, row * size, size, counts);
    }
  }
  call.outputs[0] = counts;
}

// The counts of the integers in the rows that `row_of` gives, or in one, as a sparse tensor.
void CountInSparse(Call& call, const Array& integers, const Array& weights, std::optional<int64_t> rows,
                   const std::vector<int64_t>& row_of) {
  const int64_t longest = call.integer("maxlength");
  int64_t length = std::max<int64_t>(call.integer("minlength"), 1);
  std::map<std::pair<int64_t, int64_t>, Value> counts;
  for (int64_t i = 0; i < integers.size(); ++i) {
    const int64_t at = integers[i].integer();
    if (longest >= 0 && at >= longest) continue;
    Value& count = counts[{rows ? row_of[i] : 0, at}];
    if (call.flag("binary_output")) {
      count = 1.0;
    } else {
      count.number += weights.size() == 0 ? Number(1) : weights[i].number;
    }
    length = std::max(length, at + 1);
  }
  if (longest >= 0) length = longest;
  const auto count = static_cast<int64_t>(counts.size());
  Array indices(rows ? Index{count, 2} : Index{count, 1}), values({count});
  int64_t i = 0, k = 0;
  for (const auto& [at, value] : counts) {
    if (rows) indices[i++] = Value(static_cast<double>(at.first));
    indices[i++] = Value(static_cast<double>(at.second));
    values[k++] = value;
  }
  call.outputs = {indices, values, Vector(rows ? Index{*rows, length} : Index{length})};
}

void DenseCountSparseOutput(Call& call) {
  const Array& input = call.in(0);
  std::vector<int64_t> rows(input.size());
  if (input.rank() == 1) return CountInSparse(call, input, call.in(1), std::nullopt, rows);
  for (int64_t i = 0; i < input.size(); ++i) rows[i] = i / input.dim(1);
  CountInSparse(call, input, call.in(1), input.dim(0), rows);
}

void SparseCountSparseOutput(Call& call) {
  const int64_t rank = call.in(2).size();
  std::vector<int64_t> rows(call.in(1).size());
  if (rank == 1) return CountInSparse(call, call.in(1), call.in(3), std::nullopt, rows);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = call.in(0)[static_cast<int64_t>(i) * rank].integer();
  CountInSparse(call, call.in(1), call.in(3), call.in(2)[0].integer(), rows);
}

void RaggedCountSparseOutput(Call& call) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row + 1 < call.in(0).size(); ++row) {
    rows.resize(call.in(0)[row + 1].integer(), row);
  }
  CountInSparse(call, call.in(1), call.in(2), call.in(0).size() - 1, rows);
}

void Bucketize(Call& call) {
  const auto& boundaries = call.node.attr<std::vector<float>>("boundaries");
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const double x = call.in(0)[i].real();
    size_t low = 0, high = boundaries.size();  // a boundary of NaN is not above x: only a search says what is
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (x < boundaries[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    call.outputs[0][i] = static_cast<double>(low);
  }
}

void HistogramFixedWidth(Call& call) {
  const double low = call.in(1)[0].real(), high = call.in(1)[1].real();
  const int64_t bins = call.in(2)[0].integer();
  Array counts({bins});
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const double x = std::clamp(call.in(0)[i].real(), low, high);
    const auto bin = static_cast<int64_t>((x - low) / ((high - low) / static_cast<double>(bins)));
    counts[std::min(bin, bins - 1)].number += 1;
  }
  call.outputs[0] = counts;
}

const std::vector<D> kIndexTypes = {D::kInt32, D::kInt64};

void AddBincounts(Suite& suite) {
  OpRecord& dense = suite.Op("DenseBincount").Reference(DenseBincount);
  OpRecord& sparse = suite.Op("SparseBincount").Reference(SparseBincount).NoGradient();
  OpRecord& ragged = suite.Op("RaggedBincount").Reference(RaggedBincount).NoGradient();
  dense.NoGradient();
  sparse.ShapeDependsOnValues();
  const Tensor at = Make(D::kInt64, {3, 2}, {0, 1, 0, 4, 2, 0});
  const Tensor at_in_vector = Make(D::kInt64, {3, 1}, {0, 1, 5});
  for (D i : kIndexTypes) {
    for (D t : kMain) {
      const Tensor size = Make(i, {}, {4}), weights = Sample(t, {3}, 1, 5), none = Tensor(t, {0});
      const Tensor three = Make(i, {3}, {1, 3, 1}), matrix = Make(i, {2, 3}, {1, 3, 1, 7, 0, 3});
      for (bool binary : {false, true}) {
        const AttrMap attrs = {{"binary_output", binary}};
        dense.Call({three, size, weights}, attrs)
            .Call({three, size, none}, attrs)
            .Call({matrix, size, none}, attrs)
            .Call({matrix, size, Sample(t, {2, 3}, 1, 5)}, attrs);
        sparse.Call({at, three, Longs({3, 5}), size, weights}, attrs)
            .Call({at_in_vector, three, Longs({6}), size, none}, attrs);
        ragged.Call({Longs({0, 2, 2, 3}), three, size, weights}, attrs)
            .Call({Longs({0, 3}), three, size, none}, attrs);
      }
    }
  }
  const Tensor none = Tensor(D::kFloat32, {0});
  dense.Call({Int(3), Int(5), none})
      .Call({Ints({}), Int(2), none})
      .Call({Make(D::kInt32, {0, 2}, {}), Int(2), none})
      .Call({Ints({1, 2}), Int(0), none})
      .Hostile({Ints({1, -1}), Int(5), none}, "Input arr must be non-negative!")
      .Hostile({Make(D::kInt32, {1, 2}, {1, -1}), Int(5), none}, "must be non-negative")
      .Hostile({Ints({1}), Int(-1), none}, "size (-1) must be non-negative")
      .Hostile({Ints({1}), Ints({1}), none}, "rank 0")
      .Hostile({Make(D::kInt32, {1, 1, 1}, {1}), Int(1), none}, "at most rank 2")
      .Hostile({Ints({1, 1}), Int(2), Floats({3})}, "`weights` must be the same shape as `arr`")
      .OutOfMemory({Longs({1}), Tensor::Scalar<int64_t>(kWide), none});
  sparse.Hostile({at, Ints({1, -1, 0}), Longs({3, 5}), Int(3), none}, "must be non-negative")
      .Hostile({at, Ints({1, 1, 0}), Longs({2, 5}), Int(3), none}, "is out of bounds")
      .Hostile({at, Ints({1, 1, 0}), Longs({-3, 5}), Int(3), none}, "is out of bounds")
      .Hostile({at, Ints({1, 1}), Longs({3, 5}), Int(3), none}, "(3) and values (2) do not match")
      .Hostile({at, Ints({1, 1, 0}), Longs({3}), Int(3), none}, "Index rank (2) and shape rank (1)")
      .Hostile({at, Ints({1, 1, 0}), Longs({}), Int(3), none}, "a sparse tensor is indices")
      .Hostile({at, Ints({1, 1, 0}), Longs({3, 5}), Int(3), Floats({2})}, "`weights` must be the same shape")
      .Hostile({at, Ints({1, 1, 0}), Longs({kLongest, kLongest}), Int(kHuge), none},
               "no shape has the dimensions")
      .OutOfMemory({at, Ints({1, 1, 0}), Longs({kWide, 5}), Int(3), none});
  ragged.Hostile({Longs({0, 3}), Ints({1, -1, 0}), Int(3), none}, "must be non-negative")
      .Hostile({Longs({1, 3}), Ints({1, 1, 0}), Int(3), none}, "Splits must start with 0, not with 1")
      .Hostile({Longs({0, 2}), Ints({1, 1, 0}), Int(3), none},
               "Splits must end with the number of values, got 2")
      .Hostile({Longs({}), Ints({1, 1, 0}), Int(3), none}, "Splits must be non-empty")
      .Hostile({Longs({0, 3}), Ints({1, 1, 0}), Int(3), Floats({2})}, "`weights` must be the same shape")
      .Hostile({Longs({0, 3}), Ints({1, 1, 0}), Int(-3), none}, "size (-3) must be non-negative")
      .OutOfMemory({Longs({0, 3}), Longs({1, 1, 0}), Tensor::Scalar<int64_t>(kWide), none});
}

void AddCountsInSparse(Suite& suite) {
  OpRecord& dense = suite.Op("DenseCountSparseOutput").Reference(DenseCountSparseOutput).NoGradient();
  OpRecord& sparse = suite.Op("SparseCountSparseOutput").Reference(SparseCountSparseOutput).NoGradient();
  OpRecord& ragged = suite.Op("RaggedCountSparseOutput").Reference(RaggedCountSparseOutput).NoGradient();
  for (OpRecord* record : {&dense, &sparse, &ragged}) record->ShapeDependsOnValues();
  const Tensor at = Make(D::kInt64, {3, 2}, {2, 1, 0, 4, 2, 0});
  const Tensor at_in_vector = Make(D::kInt64, {3, 1}, {0, 1, 5});
  const auto attrs_of = [](bool binary, int64_t shortest, int64_t longest) {
    return AttrMap{{"binary_output", binary}, {"minlength", shortest}, {"maxlength", longest}};
  };
  for (D i : kIndexTypes) {
    for (D t : kMain) {
      const Tensor weights = Sample(t, {3}, 1, 5), none = Tensor(t, {0});
      const Tensor three = Make(i, {3}, {1, 3, 1}), matrix = Make(i, {2, 3}, {1, 3, 1, 7, 0, 7});
      for (const AttrMap& attrs : {attrs_of(false, -1, -1), attrs_of(true, -1, -1), attrs_of(false, 9, -1),
                                   attrs_of(false, -1, 3), attrs_of(false, 5, 2), attrs_of(false, -1, 0)}) {
        dense.Call({three, weights}, attrs)
            .Call({three, none}, attrs)
            .Call({matrix, none}, attrs)
            .Call({matrix, Sample(t, {2, 3}, 1, 5)}, attrs);
        sparse.Call({at, three, Longs({3, 5}), weights}, attrs)
            .Call({at_in_vector, three, Longs({6}), none}, attrs);
        ragged.Call({Longs({0, 2, 2, 3}), three, weights}, attrs).Call({Longs({0, 3}), three, none}, attrs);
      }
    }
  }
  const Tensor none = Tensor(D::kFloat32, {0});
  const AttrMap attrs = attrs_of(false, -1, -1);
  dense.Call({Ints({}), none}, attrs)
      .Call({Make(D::kInt32, {2, 0}, {}), none}, attrs)
      .Hostile({Ints({1, -1}), none}, "Input values must all be non-negative", attrs)
      .Hostile({Int(1), none}, "Input must be a 1 or 2-dimensional tensor. Got: []", attrs)
      .Hostile({Make(D::kInt32, {0, 2}, {}), none}, "Shapes dimension cannot be 0", attrs)
      .Hostile({Ints({1, 1}), Floats({3})}, "Weights and values must have the same shape", attrs);
  sparse.Hostile({at, Ints({1, -1, 0}), Longs({3, 5}), none}, "Input values must all be non-negative", attrs)
      .Hostile({at, Ints({1, 1, 0}), Longs({2, 5}), none}, "is out of bounds", attrs)
      .Hostile({at, Ints({1, 1}), Longs({3, 5}), none}, "(3) and values (2) do not match", attrs)
      .Hostile({at, Ints({1, 1, 0}), Longs({3}), none}, "Index rank (2) and shape rank (1)", attrs)
      .Hostile({at, Ints({1, 1, 0}), Longs({3, 5}), Floats({2})},
               "Weights and values must have the same shape", attrs);
  ragged.Hostile({Longs({0, 3}), Ints({1, -1, 0}), none}, "Input values must all be non-negative", attrs)
      .Hostile({Longs({1, 3}), Ints({1, 1, 0}), none}, "Splits must start with 0, not with 1", attrs)
      .Hostile({Longs({0, 2}), Ints({1, 1, 0}), none}, "Splits must end with the number of values, got 2",
               attrs)
      .Hostile({Longs({0}), Ints({}), none}, "Must provide at least 2 elements for the splits argument",
               attrs)
      .Hostile({Longs({0, 3}), Ints({1, 1, 0}), Floats({2})}, "Weights and values must have the same shape",
               attrs);
}

}  // namespace

void AddCountingRecords(Suite& suite) {
  AddBincounts(suite);
  AddCountsInSparse(suite);

  const std::vector<float> boundaries = {-1, 0, 0, 1.5, 2};
  OpRecord& bucketize = suite.Op("Bucketize").Reference(Bucketize).NoGradient();
  for (D d : kMain) {
    bucketize.Call({Sample(d, {3, 4}, -3, 3)}, {{"boundaries", boundaries}})
        .Call({Sample(d, {2}, -3, 3)}, {{"boundaries", std::vector<float>()}});
  }
  bucketize
      .Call({Make(D::kFloat32, {5}, {0, 1.5, kInfinity, -kInfinity, std::nan("")})},
            {{"boundaries", boundaries}})
      .Call({Make(D::kFloat32, {3}, {-1, 0.5, std::nan("")})},
            {{"boundaries", std::vector<float>{0, std::nanf(""), 1}}})
      .Call({Make(D::kInt32, {4}, {-1, 0, 1, 5})}, {{"boundaries", std::vector<float>{std::nanf(""), 1, 2}}})
      .Hostile({Floats({2})}, "Expected sorted boundaries", {{"boundaries", std::vector<float>{1, 0}}});

  OpRecord& histogram = suite.Op("HistogramFixedWidth").Reference(HistogramFixedWidth).NoGradient();
  for (D d : kMain) {
    for (D out : kIndexTypes) {
      histogram.Call({Make(d, {2, 3}, {-1, 0, 1, 2, 5, 15}), Make(d, {2}, {0, 5}), Int(5)}, {{"dtype", out}});
    }
  }
  const Tensor range = Make(D::kFloat32, {2}, {0, 5});
  histogram.Call({Make(D::kFloat32, {2}, {kInfinity, -kInfinity}), range, Int(3)})
      .Hostile({Make(D::kFloat32, {2}, {std::nan(""), 1}), range, Int(3)}, "must not contain NaN")
      .Hostile({Floats({2}), Make(D::kFloat32, {2}, {5, 5}), Int(3)}, "value_range[0] < value_range[1]")
      .Hostile({Floats({2}), Make(D::kFloat32, {2}, {0, std::nan("")}), Int(3)},
               "value_range[0] < value_range[1]")
      .Hostile({Floats({2}), Floats({1}), Int(3)}, "value_range")
      .Hostile({Floats({2}), range, Int(0)}, "nbins should be a positive number, but got '0'")
      .Hostile({Floats({2}), range, Ints({3, 4})}, "nbins")
      .OutOfMemory({Floats({2}), range, Int(kHuge)});
}

}  // namespace weir::conformance
