// Tensors joined and taken apart.
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;

const std::vector<DType> kElements = Join({kNumbers, {DType::kBool}});

Tensor F(std::vector<int64_t> dims) { return Sample(DType::kFloat32, std::move(dims)); }

void SplitV(reference::Call& call) {
  const Array& value = call.in(0);
  const int axis = reference::Call::Axis(call.in(2)[0].integer(), value.rank());
  Index sizes = call.in(1).integers();
  int64_t left = value.dim(axis);
  for (int64_t size : sizes) left -= size == -1 ? 0 : size;
  int64_t begin = 0;
  for (size_t part = 0; part < sizes.size(); ++part) {
    Index dims = value.dims();
    dims[axis] = sizes[part] == -1 ? left : sizes[part];
    Array& output = call.outputs[part];
    output = Array(dims);
    for (int64_t i = 0; i < output.size(); ++i) {
      Index from = output.IndexOf(i);
      from[axis] += begin;
      output[i] = value.at(from);
    }
    begin += dims[axis];
  }
}

void AddSplitV(Suite& suite) {
  const auto parts = [](int64_t count) { return AttrMap{{"num_split", count}}; };
  OpRecord& record = suite.Op("SplitV").Reference(SplitV);
  for (DType d : kElements) record.Call({Sample(d, {5, 2}, 0, 3), Ints({2, 3}), Int(0)}, parts(2));
  record.Call({Strings({3}, {"a", "b", "c"}), Longs({0, 2, 1}), Int(0)}, parts(3))
      .Call({F({2, 7}), Make(DType::kInt8, {3}, {1, 2, 4}), Int(-1)}, parts(3))
      .Call({F({2, 7, 3}), Longs({3, -1, 2}), Int(1)}, parts(3))
      .Call({F({2, 4}), Ints({4, -1}), Int(1)}, parts(2))
      .Call({F({4, 3}), Ints({4}), Int(0)}, parts(1))
      .Call({F({0, 3}), Ints({1, 2}), Int(1)}, parts(2))
      .Call({F({0, 3}), Ints({0, -1}), Int(0)}, parts(2));
  const int64_t longest = std::numeric_limits<int64_t>::max();
  record
      .Hostile({F({3}), Ints({1, 1}), Int(0)}, "size_splits is int32[2] {1, 1}, the dimension to split is 3",
               parts(2))
      .Hostile({F({3}), Ints({-1, -1}), Int(0)}, "one size may be -1", parts(2))
      .Hostile({F({3}), Ints({5, -2}), Int(0)}, "size_splits", parts(2))
      .Hostile({F({3}), Ints({4, -1}), Int(0)}, "the dimension to split is 3", parts(2))
      .Hostile({F({3}), Longs({longest, longest, 5}), Int(0)}, "the dimension to split is 3", parts(3))
      .Hostile({F({3}), Longs({-longest - 1, 3}), Int(0)}, "the dimension to split is 3", parts(2))
      .Hostile({F({3}), Ints({3}), Int(0)}, "size_splits must have", parts(2))
      .Hostile({F({3}), Ints({1, 2}), Int(1)}, "split_dim = 1 is not in [-1, 1)", parts(2))
      .Hostile({F({3}), Ints({1, 2}), Ints({0, 0})}, "split_dim must be a scalar", parts(2))
      .Hostile({F({}), Ints({1, 0}), Int(0)}, "split_dim = 0 is not in [0, 0)", parts(2));
}

}  // namespace

void AddJoiningRecords(Suite& suite) { AddSplitV(suite); }

}  // namespace weir::conformance
