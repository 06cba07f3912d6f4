#include <algorithm>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;

// Elements [at * size, (at + 1) * size) of one array become those at `to` of another.
void CopySlice(const Array& from, int64_t at, Array* output, int64_t to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) (*output)[to * size + i] = from[at * size + i];
}

int64_t SizeOf(const Index& dims) { return Array(dims).size(); }

void DynamicPartition(reference::Call& call) {
  const Array& data = call.in(0);
  const Index partitions = call.in(1).integers();
  const Index slice(data.dims().begin() + call.in(1).rank(), data.dims().end());
  call.outputs.clear();
  for (int64_t p = 0; p < call.integer("num_partitions"); ++p) {
    Index dims = slice;
    dims.insert(dims.begin(), std::count(partitions.begin(), partitions.end(), p));
    Array output(dims);
    int64_t to = 0;
    for (size_t i = 0; i < partitions.size(); ++i) {
      if (partitions[i] == p) CopySlice(data, static_cast<int64_t>(i), &output, to++, SizeOf(slice));
    }
    call.outputs.push_back(output);
  }
}

void DynamicStitch(reference::Call& call) {
  const int count = static_cast<int>(call.integer("N"));
  int64_t length = 0;
  for (int i = 0; i < count; ++i) {
    for (const int64_t index : call.in(i).integers()) length = std::max(length, index + 1);
  }
  const Index slice(call.in(count).dims().begin() + call.in(0).rank(), call.in(count).dims().end());
  Index dims = slice;
  dims.insert(dims.begin(), length);
  Array output(dims);
  for (int i = 0; i < count; ++i) {
    const Index indices = call.in(i).integers();
    for (size_t k = 0; k < indices.size(); ++k) {
      CopySlice(call.in(count + i), static_cast<int64_t>(k), &output, indices[k], SizeOf(slice));
    }
  }
  call.outputs = {output};
}

Tensor Of(DType d, std::vector<int64_t> dims, int seed = 1) {
  return Sample(d, std::move(dims), IsUnsigned(d) ? 0 : -4, 4, seed);
}

void AddStitch(Suite& suite, const std::string& op) {
  using List = std::vector<Tensor>;
  OpRecord& stitch = suite.Op(op).Reference(DynamicStitch);
  for (DType d : Join({kNumbers, {DType::kBool}})) {
    stitch.Call({List{Ints({0, 3}), Ints({2, 1})}, List{Of(d, {2, 2}), Of(d, {2, 2}, 2)}});
  }
  stitch
      .Call(
          {List{Int(1), Make(DType::kInt32, {2, 2}, {3, 0, 2, 4})}, List{Floats({3}), Floats({2, 2, 3}, 2)}})
      .Call({List{Ints({0, 1})}, List{Strings({2}, {"a", "b"})}})
      .Call({List{Ints({}), Ints({0})}, List{Floats({0, 2}), Floats({1, 2})}})
      .Call({List{Ints({})}, List{Floats({0, 2})}})
      .Hostile({List{Ints({0, -1})}, List{Floats({2})}},
               "indices[0] has the negative -1, which is out of range")
      .Hostile({List{Ints({0, 1})}, List{Floats({3})}},
               "data[0] must begin with the dimensions of indices[0]: it is [3]")
      .Hostile({List{Ints({0}), Ints({1})}, List{Floats({1, 2}), Floats({1, 3})}},
               "slices of data[1] are [3], those of data[0] are [2]")
      .OutOfMemory({List{Ints({std::numeric_limits<int32_t>::max()})}, List{Floats({1})}});
}

}  // namespace

void AddPartitioningRecords(Suite& suite) {
  const auto into = [](int64_t count) { return AttrMap{{"num_partitions", count}}; };
  OpRecord& partition = suite.Op("DynamicPartition").Reference(DynamicPartition);
  for (DType d : Join({kNumbers, {DType::kBool}})) {
    partition.Call({Of(d, {4, 2}), Ints({2, 0, 2, 0})}, into(3));
  }
  partition.Call({Floats({2, 3, 2}), Make(DType::kInt32, {2, 3}, {0, 1, 1, 0, 0, 1})}, into(2))
      .Call({Floats({3}), Ints({0, 0, 0})}, into(1))
      .Call({Floats({2, 3}), Int(1)}, into(2))
      .Call({Strings({3}, {"a", "b", "c"}), Ints({1, 0, 1})}, into(2))
      .Call({Floats({0, 2}), Ints({})}, into(2))
      .Hostile({Floats({3}), Ints({0, 2, 0})}, "partitions[1] = 2 is not in [0, 2)", into(2))
      .Hostile({Floats({3}), Ints({0, -1, 0})}, "partitions[1] = -1 is not in [0, 2)", into(2))
      .Hostile({Floats({3}), Make(DType::kInt32, {}, {2})}, "partitions = 2 is not in [0, 2)", into(2))
      .Hostile({Floats({2, 2}), Make(DType::kInt32, {2, 2}, {0, 1, 5, 0})}, "partitions[1,0] = 5 is not in",
               into(2))
      .Hostile({Floats({3}), Ints({0, 1})}, "data is [3], partitions is [2]", into(2))
      .Hostile({Floats({3}), Make(DType::kInt32, {3, 1}, {0, 0, 0})}, "data is [3], partitions is [3,1]",
               into(2));

  AddStitch(suite, "DynamicStitch");
  AddStitch(suite, "ParallelDynamicStitch");
  suite.Op("DynamicStitch")
      .NoGradient()  // what was written over gets the gradient of what was written, as in TensorFlow
      .Call({std::vector<Tensor>{Ints({0, 1, 0}), Ints({1})},
             std::vector<Tensor>{Floats({3, 2}), Floats({1, 2}, 2)}});
}

}  // namespace weir::conformance
