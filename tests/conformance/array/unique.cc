#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;
using reference::Value;

const std::vector<DType> kElements = Join({kOrdered, {DType::kBool}});
constexpr char kNoComplex[] = "as in TensorFlow";

bool AreEqual(const Value& a, const Value& b) { return a.number == b.number && a.text == b.text; }

// The part of an array that has index `at` on an axis, element by element.
std::vector<Value> SliceOf(const Array& x, int axis, int64_t at) {
  std::vector<Value> slice;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x.IndexOf(i)[axis] == at) slice.push_back(x[i]);
  }
  return slice;
}

bool HaveEqualSlices(const Array& x, int axis, int64_t a, int64_t b) {
  const std::vector<Value> left = SliceOf(x, axis, a), right = SliceOf(x, axis, b);
  return std::equal(left.begin(), left.end(), right.begin(), AreEqual);
}

void Unique(reference::Call& call) {
  const Array& x = call.in(0);
  const bool has_axis = call.inputs.size() == 2 && call.in(1).size() == 1;
  const int axis = has_axis ? reference::Call::Axis(call.in(1)[0].integer(), x.rank()) : 0;
  std::vector<int64_t> distinct;  // where each was first seen
  std::vector<int64_t> counts;
  Array idx({x.dim(axis)});
  for (int64_t i = 0; i < x.dim(axis); ++i) {
    size_t k = 0;
    while (k < distinct.size() && !HaveEqualSlices(x, axis, i, distinct[k])) ++k;
    if (k == distinct.size()) {
      distinct.push_back(i);
      counts.push_back(0);
    }
    ++counts[k];
    idx[i] = static_cast<double>(k);
  }
  Index dims = x.dims();
  dims[axis] = static_cast<int64_t>(distinct.size());
  Array y(dims);
  for (int64_t i = 0; i < y.size(); ++i) {
    Index from = y.IndexOf(i);
    from[axis] = distinct[from[axis]];
    y[i] = x.at(from);
  }
  Array count({dims[axis]});
  for (int64_t k = 0; k < count.size(); ++k) count[k] = static_cast<double>(counts[k]);
  call.outputs = {y, idx};
  if (call.node.num_outputs() == 3) call.outputs.push_back(count);
}

void ListDiff(reference::Call& call) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    bool is_in_y = false;
    for (int64_t j = 0; j < call.in(1).size(); ++j) is_in_y |= AreEqual(call.in(0)[i], call.in(1)[j]);
    if (!is_in_y) kept.push_back(i);
  }
  Array out({static_cast<int64_t>(kept.size())}), idx = out;
  for (size_t k = 0; k < kept.size(); ++k) {
    out[k] = call.in(0)[kept[k]];
    idx[k] = static_cast<double>(kept[k]);
  }
  call.outputs = {out, idx};
}

// Few numbers, so that most come again.
Tensor Repeated(DType d, std::vector<int64_t> dims, int seed = 1) {
  Tensor numbers = Sample(DType::kInt32, dims, 0, 3, seed);
  return reference::Array::FromTensor(numbers).ToTensor(d);
}

void AddUniqueOfVectors(Suite& suite, const std::string& op, std::vector<CaseInput> further) {
  OpRecord& record =
      suite.Op(op).Reference(Unique).ShapeDependsOnValues().NoKernelFor("T", kComplexes, kNoComplex);
  const auto call = [&](const Tensor& x, AttrMap attrs = {}) {
    std::vector<CaseInput> inputs = {x};
    inputs.insert(inputs.end(), further.begin(), further.end());
    record.Call(inputs, std::move(attrs));
  };
  for (DType d : kElements) call(Repeated(d, {17}));
  call(Strings({6}, {"a", "", "b", "a", "", "a b"}));
  call(Ints({7, -7, 7, 7, 0}), {{"out_idx", DType::kInt64}});
  call(Make(DType::kFloat32, {6}, {0.0, -0.0, std::nan(""), INFINITY, std::nan(""), INFINITY}));
  call(Ints({}));
  call(Ints({5}));
  const auto fail = [&](const Tensor& x) {
    std::vector<CaseInput> inputs = {x};
    inputs.insert(inputs.end(), further.begin(), further.end());
    record.Hostile(inputs, "x must be a vector, is " + x.shape().ToString());
  };
  fail(Int(3));
  fail(Sample(DType::kFloat32, {2, 3}));
}

void AddUniqueAlongAxes(Suite& suite, const std::string& op) {
  AddUniqueOfVectors(suite, op, {Longs({})});
  OpRecord& record = suite.Op(op);
  const Tensor matrix = Make(DType::kFloat32, {4, 3}, {1, 0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0});
  for (int axis : {0, 1, -1, -2}) record.Call({matrix, Ints({axis})});
  for (int axis : {0, 1, 2}) record.Call({Repeated(DType::kInt8, {2, 3, 2}), Longs({axis})});
  record.Call({Strings({2, 2}, {"a", "a", "b", "b"}), Ints({1})});
  record.Call({Ints({3, 1, 3}), Ints({-1})});
  record.Call({Repeated(DType::kHalf, {5, 2}), Ints({0})}, {{"out_idx", DType::kInt64}});
  record.Call({Tensor(DType::kFloat32, {3, 0}), Ints({0})});  // slices without elements are all the same
  record.Call({Tensor(DType::kFloat32, {3, 0}), Ints({1})});
  record.Hostile({matrix, Ints({2})}, "axis = 2 is not in [-2, 2)");
  record.Hostile({matrix, Longs({-3})}, "axis = -3 is not in [-2, 2)");
  record.Hostile({matrix, Ints({0, 1})}, "axis must be a vector of at most one element");
  record.Hostile({matrix, Int(0)}, "axis must be a vector of at most one element");
  record.Hostile({Int(1), Ints({0})}, "axis = 0 is not in [0, 0)");
}

}  // namespace

void AddUniqueRecords(Suite& suite) {
  AddUniqueOfVectors(suite, "Unique", {});
  AddUniqueOfVectors(suite, "UniqueWithCounts", {});
  AddUniqueAlongAxes(suite, "UniqueV2");
  AddUniqueAlongAxes(suite, "UniqueWithCountsV2");

  OpRecord& list_diff = suite.Op("ListDiff")
                            .ShapeDependsOnValues()
                            .Reference(ListDiff)
                            .NoKernelFor("T", kComplexes, kNoComplex);
  for (DType d : kElements) list_diff.Call({Repeated(d, {9}), Repeated(d, {3}, 2)});
  list_diff.Call({Strings({3}, {"a", "b", "a"}), Strings({2}, {"b", "c"})})
      .Call({Ints({4, 4, 5}), Ints({5})}, {{"out_idx", DType::kInt64}})
      .Call({Make(DType::kFloat32, {3}, {std::nan(""), 0.0, 1}),
             Make(DType::kFloat32, {2}, {std::nan(""), -0.0})})
      .Call({Ints({}), Ints({1})})
      .Call({Ints({1, 2}), Ints({})})
      .Call({Ints({1, 2}), Ints({2, 1})})
      .Hostile({Int(1), Ints({1})}, "x must be a vector, is []")
      .Hostile({Ints({1}), Sample(DType::kInt32, {1, 2})}, "y must be a vector, is [1,2]");
}

}  // namespace weir::conformance
