// Tensors joined and taken apart.
#include <limits>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

const std::vector<D> kElements = Join({kNumbers, {D::kBool}});

void ConcatV2(Call& call) {
  const int count = static_cast<int>(call.inputs.size()) - 1;
  const int axis = Call::Axis(call.in(count)[0].integer(), call.in(0).rank());
  Index dims = call.in(0).dims();
  for (int i = 1; i < count; ++i) dims[axis] += call.in(i).dim(axis);
  call.outputs[0] = Generate(dims, [&](Index index) {
    int piece = 0;
    while (index[axis] >= call.in(piece).dim(axis)) index[axis] -= call.in(piece++).dim(axis);
    return call.in(piece).at(index);
  });
}

void ConcatOffset(Call& call) {
  const int axis = Call::Axis(call.in(0)[0].integer(), static_cast<int>(call.in(1).size()));
  double offset = 0;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Array& shape = call.in(static_cast<int>(i) + 1);
    call.outputs[i] = Array(shape.dims());
    call.outputs[i][axis] = offset;
    offset += shape[axis].real();
  }
}

void Split(Call& call) {
  const Array& value = call.in(1);
  const int axis = Call::Axis(call.in(0)[0].integer(), value.rank());
  Index dims = value.dims();
  dims[axis] /= static_cast<int64_t>(call.outputs.size());
  for (size_t piece = 0; piece < call.outputs.size(); ++piece) {
    call.outputs[piece] = Generate(dims, [&](Index index) {
      index[axis] += static_cast<int64_t>(piece) * dims[axis];
      return value.at(index);
    });
  }
}

void Pack(Call& call) {
  const int axis = Call::Axis(call.integer("axis"), call.in(0).rank() + 1);
  Index dims = call.in(0).dims();
  dims.insert(dims.begin() + axis, static_cast<int64_t>(call.inputs.size()));
  call.outputs[0] = Generate(dims, [&](Index index) {
    const int which = static_cast<int>(index[axis]);
    index.erase(index.begin() + axis);
    return call.in(which).at(index);
  });
}

void Unpack(Call& call) {
  const int axis = Call::Axis(call.integer("axis"), call.in(0).rank());
  Index dims = call.in(0).dims();
  dims.erase(dims.begin() + axis);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    call.outputs[i] = Generate(dims, [&](Index index) {
      index.insert(index.begin() + axis, static_cast<int64_t>(i));
      return call.in(0).at(index);
    });
  }
}

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

void AddConcatV2(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("ConcatV2").Reference(ConcatV2);
  for (D d : Join({kEveryWidth, {DType::kQint16}})) {
    record.Call({std::vector<Tensor>{Any(d, {2, 3}), Any(d, {2, 1}, 2)}, Int(1)});
  }
  record.Call({std::vector<Tensor>{Floats({2, 3}), Floats({0, 3}), Floats({4, 3})}, Int(0)})
      .Call({std::vector<Tensor>{Floats({2, 3, 2}), Floats({2, 1, 2}), Floats({2, 2, 2})},
             Tensor::Scalar<int64_t>(-2)})
      .Hostile({Tensors{Floats({2, 3}), Floats({3, 3})}, Int(1)}, "values[1] is [3,3]")
      .Hostile({Tensors{Floats({2, 3}), Floats({2})}, Int(0)}, "values[1] is [2]")
      .Hostile({Tensors{Floats({2, 3}), Floats({2, 3})}, Int(2)}, "axis = 2 is not in [-2, 2)")
      .Hostile({Tensors{Floats({}), Floats({})}, Int(0)}, "Can't concatenate scalars (use tf.stack instead)")
      .Hostile({Tensors{Floats({2}), Floats({2})}, Ints({0, 0})}, "axis must be a scalar")
      .Hostile({Tensors{Empty({kLongest, 0}), Empty({kLongest, 0}), Empty({3, 0})}, Int(0)}, "dimension 0");
}

void AddConcatOffset(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("ConcatOffset").Reference(ConcatOffset);
  record.Call({Int(1), std::vector<Tensor>{Ints({2, 3}), Ints({2, 0}), Ints({2, 5})}})
      .Call({Int(-2), std::vector<Tensor>{Longs({2, 3}), Longs({4, 3})}})
      .Hostile({Int(0), Tensors{Longs({kLongest}), Longs({kLongest}), Longs({1})}}, "shape[1]")
      .Hostile({Int(0), Tensors{Ints({kHuge}), Ints({kHuge}), Ints({1})}}, "does not fit in int32")
      .Hostile({Int(0), Tensors{Ints({-1}), Ints({1})}}, "shape[0]")
      .Hostile({Int(0), Tensors{Ints({2, 3}), Ints({2, 4})}}, "may differ in dimension 0 only")
      .Hostile({Int(0), Tensors{Ints({2, 3}), Ints({2})}}, "shape[1]")
      .Hostile({Int(2), Tensors{Ints({2, 3}), Ints({2, 3})}}, "Concat dim is out of range: 2 vs. 2");
}

void AddSplit(Suite& suite) {
  OpRecord& record = suite.Op("Split").Reference(Split);
  for (D d : kEveryWidth) {
    record.Call({Int(1), Any(d, {2, 6})}, {{"num_split", 3}});
  }
  record.Call({Int(-3), Floats({4, 2, 3})}, {{"num_split", 2}})
      .Hostile({Int(0), Floats({3})}, "evenly divide", {{"num_split", 2}})
      .Hostile({Int(-3), Floats({2, 2})}, "split_dim = -3 is not in [-2, 2)", {{"num_split", 2}})
      .Hostile({Int(0), Floats({})}, "split_dim = 0 is not in [0, 0)", {{"num_split", 1}});
}

void AddPack(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("Pack").Reference(Pack);
  for (D d : kEveryWidth) {
    record.Call({std::vector<Tensor>{Any(d, {2, 3}), Any(d, {2, 3}, 2)}}, {{"axis", 1}});
  }
  record.Call({std::vector<Tensor>{Floats({}), Floats({}, 2), Floats({}, 3)}}, {{"axis", -1}})
      .Call({std::vector<Tensor>{Floats({2, 2}), Floats({2, 2}, 2)}}, {{"axis", -1}})
      .Call({std::vector<Tensor>{Int(3), Int(4)}})
      .Hostile({Tensors{Floats({2}), Floats({2})}}, "axis = 3 is not in [-2, 2)", {{"axis", 3}})
      .Hostile({Tensors{Floats({2}), Floats({3})}}, "values[1]")
      .Hostile({Tensors{Empty({kLongest, 0}), Empty({kLongest, 0})}}, "no shape has the dimensions");
}

// TensorFlow leaves what no value fills as it finds it; here the shape must be that of the values.
void AddParallelConcat(Suite& suite) {
  using Tensors = std::vector<Tensor>;
  OpRecord& record = suite.Op("ParallelConcat").Reference([](Call& call) {
    Index dims = call.in(0).dims();
    dims[0] = static_cast<int64_t>(call.inputs.size());
    call.outputs[0] = Generate(dims, [&](Index index) {
      const int which = static_cast<int>(index[0]);
      index[0] = 0;
      return call.in(which).at(index);
    });
  });
  const auto attrs = [](std::vector<int64_t> dims) {
    return AttrMap{{"shape", PartialShape::FromDims(dims).value()}};
  };
  record.NoGradient();
  for (const D d : kEveryWidth) record.Call({Tensors{Any(d, {1, 3}), Any(d, {1, 3}, 2)}}, attrs({2, 3}));
  record.Call({Tensors{Floats({1}), Floats({1}, 2), Floats({1}, 3)}}, attrs({3}));
  record.Call({Tensors{Empty({1, 0}), Empty({1, 0})}}, attrs({2, 0}))
      .Call({Tensors{Floats({1, 2, 2})}}, attrs({1, 2, 2}));
  record.Hostile({Tensors{Floats({1, 2}), Floats({1, 2})}}, "Expected fully defined output shape",
                 attrs({-1, 2}));
  record.Hostile({Tensors{Floats({2, 2}), Floats({2, 2})}}, "Size of first dimension must be 1",
                 attrs({2, 2}));
  record.Hostile({Tensors{Floats({}), Floats({})}}, "Size of first dimension must be 1", attrs({2}));
  record.Hostile({Tensors{Floats({1, 2}), Floats({1, 3})}}, "values[0] is [1,2], values[1] is [1,3]",
                 attrs({2, 2}));
  record.Hostile({Tensors{Floats({1, 2}), Floats({1, 2})}}, "attr shape is [3,2] for 2 values",
                 attrs({3, 2}));
  constexpr int64_t kHalf = int64_t{1} << 62;
  record.Hostile({Tensors{Empty({1, kHalf, 0}), Empty({1, kHalf, 0})}}, "no shape has the dimensions",
                 attrs({1, kHalf, 0}));
}

void AddUnpack(Suite& suite) {
  OpRecord& record = suite.Op("Unpack").Reference(Unpack);
  for (D d : kEveryWidth) {
    record.Call({Any(d, {2, 3, 2})}, {{"num", 3}, {"axis", 1}});
  }
  record.Call({Floats({2})}, {{"num", 2}})
      .Hostile({Floats({2, 2})}, "num = 3", {{"num", 3}})
      .Hostile({Floats({2, 2})}, "axis = 2 is not in [-2, 2)", {{"num", 2}, {"axis", 2}})
      .Hostile({Floats({})}, "axis = 0 is not in [0, 0)", {{"num", 0}});
}

void AddSplitV(Suite& suite) {
  const auto parts = [](int64_t count) { return AttrMap{{"num_split", count}}; };
  OpRecord& record = suite.Op("SplitV").Reference(SplitV);
  for (DType d : kElements) record.Call({Sample(d, {5, 2}, 0, 3), Ints({2, 3}), Int(0)}, parts(2));
  record.Call({Strings({3}, {"a", "b", "c"}), Longs({0, 2, 1}), Int(0)}, parts(3))
      .Call({Floats({2, 7}), Make(DType::kInt8, {3}, {1, 2, 4}), Int(-1)}, parts(3))
      .Call({Floats({2, 7, 3}), Longs({3, -1, 2}), Int(1)}, parts(3))
      .Call({Floats({2, 4}), Ints({4, -1}), Int(1)}, parts(2))
      .Call({Floats({4, 3}), Ints({4}), Int(0)}, parts(1))
      .Call({Floats({0, 3}), Ints({1, 2}), Int(1)}, parts(2))
      .Call({Floats({0, 3}), Ints({0, -1}), Int(0)}, parts(2));
  const int64_t longest = std::numeric_limits<int64_t>::max();
  record
      .Hostile({Floats({3}), Ints({1, 1}), Int(0)},
               "size_splits is int32[2] {1, 1}, the dimension to split is 3", parts(2))
      .Hostile({Floats({3}), Ints({-1, -1}), Int(0)}, "one size may be -1", parts(2))
      .Hostile({Floats({3}), Ints({5, -2}), Int(0)}, "size_splits", parts(2))
      .Hostile({Floats({3}), Ints({4, -1}), Int(0)}, "the dimension to split is 3", parts(2))
      .Hostile({Floats({3}), Longs({longest, longest, 5}), Int(0)}, "the dimension to split is 3", parts(3))
      .Hostile({Floats({3}), Longs({-longest - 1, 3}), Int(0)}, "the dimension to split is 3", parts(2))
      .Hostile({Floats({3}), Ints({3}), Int(0)}, "size_splits must have", parts(2))
      .Hostile({Floats({3}), Ints({1, 2}), Int(1)}, "split_dim = 1 is not in [-1, 1)", parts(2))
      .Hostile({Floats({3}), Ints({1, 2}), Ints({0, 0})}, "split_dim must be a scalar", parts(2))
      .Hostile({Floats({}), Ints({1, 0}), Int(0)}, "split_dim = 0 is not in [0, 0)", parts(2));
}

}  // namespace

void AddJoiningRecords(Suite& suite) {
  AddConcatV2(suite);
  AddConcatOffset(suite);
  AddSplit(suite);
  AddPack(suite);
  AddParallelConcat(suite);
  AddUnpack(suite);
  AddSplitV(suite);
}

}  // namespace weir::conformance
