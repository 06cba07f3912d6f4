#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;
using reference::Number;

bool IsInteger(DType d) { return std::find(kIntegers.begin(), kIntegers.end(), d) != kIntegers.end(); }

using Numbers = std::vector<Number>;
// What becomes of the elements of a segment's rows in one column. `is_whole`: of an integer dtype.
using Combine = std::function<Number(const Numbers&, bool is_whole)>;

Number Sum(const Numbers& values, bool) {
  Number sum = 0;
  for (const Number& value : values) sum += value;
  return sum;
}
Number Mean(const Numbers& values, bool is_whole) {
  const Number mean = Sum(values, is_whole) / static_cast<double>(values.size());
  return is_whole ? std::trunc(mean.real()) : mean;
}
Number SqrtN(const Numbers& values, bool is_whole) {
  return Sum(values, is_whole) / std::sqrt(static_cast<double>(values.size()));
}
Number Prod(const Numbers& values, bool) {
  Number product = 1;
  for (const Number& value : values) product *= value;
  return product;
}
bool IsLess(const Number& a, const Number& b) { return a.real() < b.real(); }
Number Min(const Numbers& values, bool) { return *std::min_element(values.begin(), values.end(), IsLess); }
Number Max(const Numbers& values, bool) { return *std::max_element(values.begin(), values.end(), IsLess); }

// Element [row, column] of an array taken as [rows, columns].
Number At(const Array& array, int64_t row, int64_t column, int64_t columns) {
  return array[row * columns + column].number;
}

// `ids[i]` is the segment of row `rows[i]` of input 0, whose rows have `rank` dimensions less.
Array Segments(reference::Call& call, int rank, const Index& rows, const Index& ids, int64_t num_segments,
               const Combine& combine, const Number& gap) {
  const Array& data = call.in(0);
  Index dims(data.dims().begin() + rank, data.dims().end());
  const int64_t columns = Array(dims).size();
  dims.insert(dims.begin(), num_segments);
  Array output(dims, gap);
  for (int64_t i = 0; i < output.size(); ++i) {
    Numbers values;
    for (size_t k = 0; k < ids.size(); ++k) {
      if (ids[k] == i / columns) values.push_back(At(data, rows[k], i % columns, columns));
    }
    if (!values.empty()) output[i] = combine(values, IsInteger(call.node.output_type(0)));
  }
  return output;
}

Index AllRows(const Index& ids) {
  Index rows(ids.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  return rows;
}

reference::Reference Sorted(Combine combine, double gap = 0) {
  return [=](reference::Call& call) {
    const Index ids = call.in(1).integers();
    call.outputs = {Segments(call, 1, AllRows(ids), ids, ids.empty() ? 0 : ids.back() + 1, combine, gap)};
  };
}

reference::Reference Unsorted(Combine combine, std::function<double(DType)> gap) {
  return [=](reference::Call& call) {
    const Index ids = call.in(1).integers();
    call.outputs = {Segments(call, call.in(1).rank(), AllRows(ids), ids, call.in(2)[0].integer(), combine,
                             gap(call.node.output_type(0)))};
  };
}

reference::Reference Sparse(Combine combine) {
  return [=](reference::Call& call) {
    const Index ids = call.in(2).integers();
    int64_t count = ids.empty() ? 0 : ids.back() + 1;
    if (call.inputs.size() == 4) count = call.in(3)[0].integer();
    call.outputs = {Segments(call, 1, call.in(1).integers(), ids, count, combine, 0)};
  };
}

// The rows of a segment's gradient count as much as one row did in its result.
reference::Reference SparseGrad(Combine combine) {
  return [=](reference::Call& call) {
    const Array& grad = call.in(0);
    const Index indices = call.in(1).integers(), ids = call.in(2).integers();
    Index dims = grad.dims();
    dims[0] = call.in(3)[0].integer();
    Array output(dims);
    const int64_t columns = Array(Index(dims.begin() + 1, dims.end())).size();
    for (size_t k = 0; k < ids.size(); ++k) {
      Numbers one(std::count(ids.begin(), ids.end(), ids[k]), 0);
      one[0] = 1;
      for (int64_t j = 0; j < columns; ++j) {
        output[indices[k] * columns + j].number += combine(one, false) * At(grad, ids[k], j, columns);
      }
    }
    call.outputs = {output};
  };
}

// The same of the rows that were looked up alone.
reference::Reference SparseGradOfRows(Combine combine) {
  return [=](reference::Call& call) {
    SparseGrad(combine)(call);
    const Array all = call.outputs[0];
    Index rows = call.in(1).integers(), dims = all.dims();
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const auto count = static_cast<int64_t>(rows.size());
    const int64_t columns = Array(Index(dims.begin() + 1, dims.end())).size();
    dims[0] = count;
    Array output(dims), numbers({count});
    for (int64_t i = 0; i < count; ++i) {
      numbers[i].number = static_cast<double>(rows[i]);
      for (int64_t j = 0; j < columns; ++j) output[i * columns + j] = all[rows[i] * columns + j];
    }
    call.outputs = {output, numbers};
  };
}

double Largest(DType d) {
  switch (d) {
    case DType::kHalf:
      return 65504;
    case DType::kBfloat16:
      return std::ldexp(2.0 - std::ldexp(1, -7), 127);
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    case DType::kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return std::ldexp(1, static_cast<int>(DTypeSize(d)) * 8 - (IsUnsigned(d) ? 0 : 1)) - 1;
  }
}
double Smallest(DType d) {
  if (!IsInteger(d)) return -Largest(d);
  return IsUnsigned(d) ? 0 : -Largest(d) - 1;
}

Tensor Of(DType d, std::vector<int64_t> dims) {
  return Sample(d, std::move(dims), IsUnsigned(d) ? 0 : -3, 3);
}

void AddSorted(Suite& suite, const std::string& op, const std::vector<DType>& dtypes,
               reference::Reference reference) {
  OpRecord& record = suite.Op(op).Reference(std::move(reference));
  for (DType d : dtypes) record.Call({Of(d, {5, 3}), Ints({0, 0, 1, 3, 3})});
  record.Call({Floats({4}), Longs({1, 1, 1, 4})})
      .Call({Floats({3, 2, 2}), Ints({0, 0, 0})})
      .Call({Floats({3, 200}), Ints({0, 0, 1})})
      .Call({Floats({0, 2}), Ints({})})
      .Call({Floats({2, 0}), Ints({0, 3})})
      .Hostile({Floats({3}), Ints({1, 0, 2})},
               "segment ids are not increasing: segment_ids[1] = 0 comes after 1")
      .Hostile({Floats({3}), Ints({-1, 0, 2})}, "segment_ids[0] = -1 is negative")
      .Hostile({Floats({3}), Ints({0, 1})}, "data is [3], segment_ids is [2]")
      .Hostile({Floats({3}), Sample(DType::kInt32, {1, 3}, 0, 0)}, "segment_ids must be a vector, is [1,3]")
      .Hostile({Floats({}), Ints({0})}, "data must be at least a vector")
      .Hostile({Floats({1}), Longs({std::numeric_limits<int64_t>::max()})}, "is too large")
      .Hostile({Floats({1, 8}), Longs({int64_t{1} << 61})}, "[2305843009213693953,8]")
      .OutOfMemory({Floats({1}), Longs({int64_t{1} << 40})});
}

OpRecord& AddUnsorted(Suite& suite, const std::string& op, const std::vector<DType>& dtypes,
                      reference::Reference reference) {
  OpRecord& record = suite.Op(op).Reference(std::move(reference));
  record.Call({Floats({5, 3}), Ints({1, 0, 1, -1, 0}), Int(2)});
  // Small changes do not tell the gradient where a segment has the dtype's largest number.
  if (op != "UnsortedSegmentSum" && op != "UnsortedSegmentProd") record.NoGradient();
  for (DType d : dtypes) {
    // References compute in double, which has not the largest integers of 64 bits: for them no empty segment.
    const bool has_gaps = d != DType::kInt64 && d != DType::kUint64;
    record.Call({Of(d, {5, 3}), Ints({3, 0, 1, has_gaps ? 0 : 2, 0}), Int(has_gaps ? 5 : 4)});
  }
  const Tensor data = Floats({3, 2});
  return record.Call({Floats({5}), Longs({2, -1, 0, 2, -7}), Tensor::Scalar<int64_t>(3)})
      .Call({Floats({2, 3, 2}), Make(DType::kInt32, {2, 3}, {1, 0, 1, -1, 2, 0}), Int(3)})
      .Call({Floats({}), Int(1), Int(2)})
      .Call({Floats({2, 3}), Make(DType::kInt64, {2, 3}, {0, 1, 1, 2, 0, 0}), Tensor::Scalar<int64_t>(3)})
      .Call({Floats({0, 2}), Ints({}), Int(2)})
      .Call({Of(DType::kInt32, {3, 2}), Ints({-1, -1, -1}), Int(0)})
      .Hostile({data, Ints({0, 1, 2}), Int(2)}, "segment_ids[2] = 2 is not in [0, 2)")
      .Hostile({data, Longs({0, 1, std::numeric_limits<int64_t>::max()}), Int(2)}, "segment_ids[2]")
      .Hostile({Floats({2, 2}), Make(DType::kInt32, {2, 2}, {0, 1, 2, 0}), Int(2)}, "segment_ids[1,0] = 2")
      .Hostile({data, Ints({0, 1}), Int(2)}, "segment_ids")
      .Hostile({data, Make(DType::kInt32, {3, 1}, {0, 0, 0}), Int(2)}, "segment_ids")
      .Hostile({data, Ints({0, 1, 1}), Int(-2)}, "num_segments must be non-negative, is -2")
      .Hostile({data, Ints({0, 1, 1}), Ints({2, 2})}, "num_segments must be a scalar")
      .OutOfMemory({data, Ints({0, 1, 1}), Tensor::Scalar(int64_t{1} << 40)});
}

void AddSparse(Suite& suite, const std::string& op, const std::vector<DType>& dtypes, const Combine& combine,
               bool has_count) {
  OpRecord& record = suite.Op(op).Reference(Sparse(combine));
  const auto inputs = [&](Tensor data, Tensor indices, Tensor ids, int count) {
    std::vector<CaseInput> list = {std::move(data), std::move(indices), std::move(ids)};
    if (has_count) list.push_back(Int(count));
    return list;
  };
  for (DType d : dtypes) record.Call(inputs(Of(d, {4, 3}), Ints({3, 0, 3, 1}), Ints({0, 0, 1, 3}), 4));
  record.Call(inputs(Floats({4, 2}), Longs({3, 0, 3, 1, 1}), Longs({1, 1, 1, 1, 2}), 6))
      .Call(inputs(Floats({4, 2}), Ints({}), Ints({}), 2))
      .Call(inputs(Floats({4}), Ints({2, 2}), Ints({0, 0}), 1))
      .Call(inputs(Floats({4}), Ints({2, 1}), Ints({0, 0}), 3), {{"sparse_gradient", true}})
      .Hostile(inputs(Floats({3}), Ints({0, 3}), Ints({0, 0}), 1), "indices[1] = 3 is not in [0, 3)")
      .Hostile(inputs(Floats({3}), Ints({-1, 0}), Ints({0, 0}), 1), "indices[0] = -1 is not in [0, 3)")
      .Hostile(inputs(Floats({3}), Ints({0, 1}), Ints({1, 0}), 3), "segment ids are not increasing")
      .Hostile(inputs(Floats({3}), Ints({0}), Ints({-1}), 3), "segment_ids[0] = -1 is negative")
      .Hostile(inputs(Floats({3}), Ints({0}), Ints({0, 1}), 3), "must have the same length, are [2] and [1]")
      .Hostile(inputs(Floats({3}), Int(0), Ints({0}), 3), "indices must be a vector")
      .Hostile(inputs(Floats({3}), Ints({0}), Int(0), 3), "segment_ids must be a vector")
      .Hostile(inputs(Floats({}), Ints({0}), Ints({0}), 3), "data must be at least a vector");
  if (has_count) {
    record
        .Hostile({Floats({3}), Ints({0}), Ints({2}), Int(2)}, "num_segments = 2 is too few for segment id 2")
        .Hostile({Floats({3}), Ints({}), Ints({}), Int(-2)}, "num_segments = -2")
        .Hostile({Floats({3}), Ints({0}), Ints({0}), Ints({1, 2})}, "num_segments must be a scalar")
        .OutOfMemory({Floats({3}), Ints({0}), Ints({0}), Tensor::Scalar(int64_t{1} << 40)});
  } else {
    record.OutOfMemory({Floats({3}), Ints({0}), Longs({int64_t{1} << 40})});
  }
}

// `count`: the name of the input that says how many rows the data has.
void AddSparseGrad(Suite& suite, const std::string& op, const reference::Reference& reference,
                   const std::string& count) {
  OpRecord& record = suite.Op(op).Reference(reference);
  for (DType d : kReals) record.Call({Of(d, {3, 2}), Ints({3, 0, 3, 1}), Ints({0, 0, 1, 2}), Int(5)});
  record.Call({Floats({3}), Longs({0, 2, 2}), Longs({2, 0, 2}), Int(3)})
      .Call({Floats({3, 2}), Ints({}), Ints({}), Int(2)})
      .Call({Floats({3, 0}), Ints({1}), Ints({1}), Int(2)})
      .Hostile({Floats({3}), Ints({0, 2}), Ints({0, 0}), Int(2)}, "indices[1] = 2 is not in [0, 2)")
      .Hostile({Floats({3}), Ints({0, -1}), Ints({0, 0}), Int(2)}, "indices[1] = -1 is not in [0, 2)")
      .Hostile({Floats({3}), Ints({0, 1}), Ints({0, 3}), Int(2)}, "segment_ids[1] = 3 is not in [0, 3)")
      .Hostile({Floats({3}), Ints({0, 1}), Ints({0, -1}), Int(2)}, "segment_ids[1] = -1 is not in [0, 3)")
      .Hostile({Floats({3}), Ints({0}), Ints({0}), Int(-1)}, count + " must be non-negative, is -1")
      .Hostile({Floats({3}), Ints({0}), Ints({0}), Ints({1, 2})}, count + " must be a scalar")
      .Hostile({Floats({3}), Ints({0}), Ints({0, 0}), Int(1)}, "must have the same length")
      .Hostile({Floats({}), Ints({0}), Ints({0}), Int(1)}, "grad must be at least a vector");
}

void AddSparseGrads(Suite& suite, const std::string& reduction, const Combine& combine) {
  const std::string op = "SparseSegment" + reduction + "Grad";
  AddSparseGrad(suite, op, SparseGrad(combine), "output_dim0");
  suite.Op(op).OutOfMemory({Floats({1, 4}), Ints({0}), Ints({0}), Int(std::numeric_limits<int32_t>::max())});
  AddSparseGrad(suite, op + "V2", SparseGradOfRows(combine), "dense_output_dim0");
  suite.Op(op + "V2").ShapeDependsOnValues();
}

}  // namespace

void AddSegmentRecords(Suite& suite) {
  AddSorted(suite, "SegmentSum", kNumbers, Sorted(Sum));
  AddSorted(suite, "SegmentMean", kNumbers, Sorted(Mean));
  AddSorted(suite, "SegmentProd", kNumbers, Sorted(Prod, 1));
  AddSorted(suite, "SegmentMin", kOrdered, Sorted(Min));
  AddSorted(suite, "SegmentMax", kOrdered, Sorted(Max));

  AddUnsorted(suite, "UnsortedSegmentSum", kNumbers, Unsorted(Sum, [](DType) { return 0; }));
  AddUnsorted(suite, "UnsortedSegmentProd", kNumbers, Unsorted(Prod, [](DType) { return 1; }));
  AddUnsorted(suite, "UnsortedSegmentMin", kOrdered, Unsorted(Min, Largest));
  AddUnsorted(suite, "UnsortedSegmentMax", kOrdered, Unsorted(Max, Smallest));

  for (const bool has_count : {false, true}) {
    const std::string end = has_count ? "WithNumSegments" : "";
    AddSparse(suite, "SparseSegmentSum" + end, kOrdered, Sum, has_count);
    AddSparse(suite, "SparseSegmentMean" + end, kReals, Mean, has_count);
    AddSparse(suite, "SparseSegmentSqrtN" + end, kReals, SqrtN, has_count);
  }
  AddSparseGrads(suite, "Sum", Sum);
  AddSparseGrads(suite, "Mean", Mean);
  AddSparseGrads(suite, "SqrtN", SqrtN);
}

}  // namespace weir::conformance
