// Parts of tensors, and tensors repeated.
#include <algorithm>
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

void Slice(Call& call) {
  const Index begin = call.in(1).integers();
  Index size = call.in(2).integers();
  for (size_t i = 0; i < size.size(); ++i)
    size[i] = size[i] == -1 ? call.in(0).dim(static_cast<int>(i)) - begin[i] : size[i];
  call.outputs[0] = Generate(size, [&](Index index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] += begin[i];
    return call.in(0).at(index);
  });
}

// For every dimension of the sliced array the positions that are taken, as Python's slices define them; and
// the dims of the result.
struct Sliced {
  std::vector<Index> positions;
  Index dims;
};

Sliced PythonSlice(const Call& call, const Index& shape, int first) {
  const Index begin = call.in(first).integers(), end = call.in(first + 1).integers(),
              step = call.in(first + 2).integers();
  const auto bit = [&](const char* mask, size_t i) { return (call.integer(mask) >> i & 1) != 0; };
  Sliced sliced;
  const auto take_all = [&] {
    const int64_t dim = shape[sliced.positions.size()];
    Index all;
    for (int64_t i = 0; i < dim; ++i) all.push_back(i);
    sliced.positions.push_back(all);
    sliced.dims.push_back(dim);
  };
  for (size_t i = 0; i < begin.size(); ++i) {
    if (bit("ellipsis_mask", i)) {
      size_t behind = 0;
      for (size_t j = i + 1; j < begin.size(); ++j) behind += bit("new_axis_mask", j) ? 0 : 1;
      while (sliced.positions.size() + behind < shape.size()) take_all();
      continue;
    }
    if (bit("new_axis_mask", i)) {
      sliced.dims.push_back(1);
      continue;
    }
    const int64_t dim = shape[sliced.positions.size()];
    const auto from_end = [&](int64_t x) { return x < 0 ? x + dim : x; };
    if (bit("shrink_axis_mask", i)) {
      sliced.positions.push_back({from_end(begin[i])});
      continue;
    }
    Index taken;
    // Walk every position in the direction of the step; take those on the grid that lie between begin and
    // end.
    const int64_t s = step[i];
    int64_t at = bit("begin_mask", i) ? (s > 0 ? 0 : dim - 1) : from_end(begin[i]);
    at = s > 0 ? std::max<int64_t>(at, 0) : std::min<int64_t>(at, dim - 1);
    const int64_t stop = bit("end_mask", i) ? (s > 0 ? dim : -1) : from_end(end[i]);
    for (; at >= 0 && at < dim && (s > 0 ? at < stop : at > stop); at += s) taken.push_back(at);
    sliced.positions.push_back(taken);
    sliced.dims.push_back(static_cast<int64_t>(taken.size()));
  }
  while (sliced.positions.size() < shape.size()) take_all();
  return sliced;
}

// Calls visit(position in the result, index in the sliced array).
void VisitSliced(const Sliced& sliced, const std::function<void(int64_t, const Index&)>& visit) {
  Index sizes;
  for (const Index& taken : sliced.positions) sizes.push_back(static_cast<int64_t>(taken.size()));
  const Array counter(sizes);
  for (int64_t i = 0; i < counter.size(); ++i) {
    Index index = counter.IndexOf(i);
    for (size_t d = 0; d < index.size(); ++d) index[d] = sliced.positions[d][index[d]];
    visit(i, index);
  }
}

void StridedSlice(Call& call) {
  const Sliced sliced = PythonSlice(call, call.in(0).dims(), 1);
  call.outputs[0] = Array(sliced.dims);
  VisitSliced(sliced, [&](int64_t i, const Index& index) { call.outputs[0][i] = call.in(0).at(index); });
}

void StridedSliceGrad(Call& call) {
  const Index shape = call.in(0).integers();
  const Sliced sliced = PythonSlice(call, shape, 1);
  call.outputs[0] = Array(shape);
  VisitSliced(sliced, [&](int64_t i, const Index& index) { call.outputs[0].at(index) = call.in(4)[i]; });
}

// The value is broadcast; it may have dimensions of 1 in front of those of the slice.
const Value& UpdateAt(const Array& value, const Index& at) {
  Index own(value.rank(), 0);
  const int extra = value.rank() - static_cast<int>(at.size());
  for (int i = std::max(extra, 0); i < value.rank(); ++i) own[i] = value.dim(i) == 1 ? 0 : at[i - extra];
  return value.at(own);
}

// TensorStridedSliceUpdate, and ResourceStridedSliceAssign of the variable's value.
void UpdateSlice(Call& call) {
  const Sliced sliced = PythonSlice(call, call.in(0).dims(), 1);
  const Array counter(sliced.dims);
  Array updated = call.in(0);
  VisitSliced(sliced, [&](int64_t i, const Index& index) {
    updated.at(index) = UpdateAt(call.in(4), counter.IndexOf(i));
  });
  call.outputs = {updated};
}

void Tile(Call& call) {
  Index dims = call.in(0).dims();
  for (size_t i = 0; i < dims.size(); ++i) dims[i] *= call.in(1)[static_cast<int64_t>(i)].integer();
  call.outputs[0] = Generate(dims, [&](Index index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] %= call.in(0).dim(static_cast<int>(i));
    return call.in(0).at(index);
  });
}

void BroadcastTo(Call& call) {
  const Array& input = call.in(0);
  call.outputs[0] = Generate(call.in(1).integers(), [&](const Index& index) {
    Index own(index.end() - input.rank(), index.end());
    for (int i = 0; i < input.rank(); ++i) own[i] = input.dim(i) == 1 ? 0 : own[i];
    return input.at(own);
  });
}

void BroadcastGradientArgs(Call& call) {
  const Index s0 = call.in(0).integers(), s1 = call.in(1).integers();
  const size_t rank = std::max(s0.size(), s1.size());
  const Index* shapes[] = {&s0, &s1};
  for (int k = 0; k < 2; ++k) {
    Index axes;
    for (size_t i = 0; i < rank && s0 != s1; ++i) {
      const size_t missing = rank - shapes[k]->size();
      if (i < missing || (*shapes[k])[i - missing] == 1) axes.push_back(static_cast<int64_t>(i));
    }
    call.outputs[k] = Vector(axes);
  }
}

void BroadcastArgs(reference::Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  Array& shape = call.outputs[0];
  shape = Array({std::max(a.size(), b.size())});
  // Counted from the back.
  for (int64_t i = 1; i <= shape.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i].integer() : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i].integer() : 1;
    shape[shape.size() - i] = static_cast<double>(x == 1 ? y : x);
  }
}

void AddSlice(Suite& suite) {
  OpRecord& record = suite.Op("Slice").Reference(Slice);
  for (D d : kEveryWidth) {
    record.Call({Any(d, {4, 5}), Ints({1, 2}), Ints({2, -1})});
  }
  record.Call({Floats({2, 3, 4}), Longs({0, 0, 0}), Longs({2, 3, 4})})
      .Call({Floats({2, 3}), Ints({2, 0}), Ints({0, 3})})
      .Hostile({Floats({2, 3}), Ints({0, 4}), Ints({1, 0})}, "begin[1] = 4 is not in [0, 3]")
      .Hostile({Floats({2, 3}), Ints({-1, 0}), Ints({1, 0})}, "begin[0] = -1")
      .Hostile({Floats({2, 3}), Ints({1, 1}), Ints({1, 3})}, "size[1] = 3 is not in [0, 2]")
      .Hostile({Floats({2, 3}), Ints({1, 1}), Ints({1, -2})}, "size[1] = -2 is not in [0, 2]")
      .Hostile({Floats({2, 3}), Longs({1, 1}), Longs({1, kLongest})}, "size[1]")
      .Hostile({Floats({2, 3}), Longs({1, 1}), Longs({1, kShortest})}, "size[1]")
      .Hostile({Floats({2, 3}), Longs({1, kLongest}), Longs({1, -1})}, "begin[1]")
      .Hostile({Floats({2, 3}), Ints({0}), Ints({1, 1})}, "begin must have one element per dimension")
      .Hostile({Floats({2, 3}), Ints({0, 0}), Ints({1, 1, 1})}, "size must have one element per dimension");
}

void AddStridedSlices(Suite& suite) {
  OpRecord& record = suite.Op("StridedSlice").Reference(StridedSlice);
  OpRecord& grad = suite.Op("StridedSliceGrad").Reference(StridedSliceGrad);
  OpRecord& update = suite.Op("TensorStridedSliceUpdate").Reference(UpdateSlice);
  OpRecord& assign = suite.Op("ResourceStridedSliceAssign").Reference(UpdateSlice);

  struct Spec {
    std::vector<int64_t> dims;
    std::vector<int32_t> begin, end, strides;
    AttrMap masks;
    std::vector<int64_t> result;
  };
  const std::vector<Spec> specs = {
      {{5}, {1}, {4}, {1}, {}, {3}},
      {{5}, {-1}, {-6}, {-2}, {}, {3}},
      {{5}, {0}, {100}, {3}, {}, {2}},
      {{5}, {4}, {2}, {1}, {}, {0}},
      {{5}, {2}, {0}, {1}, {{"shrink_axis_mask", 1}}, {}},
      {{5}, {-2}, {0}, {1}, {{"shrink_axis_mask", 1}}, {}},
      {{5}, {3}, {1}, {-1}, {{"begin_mask", 1}, {"end_mask", 1}}, {5}},
      {{5}, {1}, {5}, {std::numeric_limits<int32_t>::max()}, {}, {1}},
      {{4, 5}, {1, 2}, {3, 5}, {1, 2}, {}, {2, 2}},
      {{4, 5}, {1}, {3}, {1}, {}, {2, 5}},
      {{2, 3, 4}, {0, 1}, {0, 3}, {1, 1}, {{"ellipsis_mask", 1}}, {2, 3, 2}},
      {{2, 3, 4}, {1, 0, 2}, {2, 0, 4}, {1, 1, 2}, {{"ellipsis_mask", 2}}, {1, 3, 1}},
      {{2, 3}, {0, 0, 1}, {2, 0, 3}, {1, 1, 1}, {{"new_axis_mask", 2}}, {2, 1, 2}},
      {{2, 3, 4},
       {1, 0, 0, 3},
       {2, 0, 0, 0},
       {1, 1, 1, -1},
       {{"shrink_axis_mask", 1}, {"new_axis_mask", 2}, {"ellipsis_mask", 4}},
       {1, 3, 3}},
      {{2, 3}, {0, 0}, {0, 0}, {1, 1}, {{"ellipsis_mask", 1}, {"new_axis_mask", 2}}, {2, 3, 1}},
      {{2, 3, 4},
       {1, 0, 0, 2},
       {0, 0, 0, 0},
       {1, 1, 1, 1},
       {{"shrink_axis_mask", 9}, {"ellipsis_mask", 2}, {"new_axis_mask", 4}},
       {3, 1}},
      {{2, 3},
       {0, 0, 0},
       {0, 0, 0},
       {1, 1, 1},
       {{"ellipsis_mask", 2}, {"begin_mask", 5}, {"end_mask", 5}},
       {2, 3}},
      {{3, 0}, {0}, {2}, {1}, {}, {2, 0}},
      {{}, {0}, {0}, {1}, {{"new_axis_mask", 1}}, {1}},
  };
  for (const Spec& spec : specs) {
    record.Call({Floats(spec.dims), Ints(spec.begin), Ints(spec.end), Ints(spec.strides)}, spec.masks);
    const std::vector<int32_t> dims(spec.dims.begin(), spec.dims.end());
    grad.Call({Ints(dims), Ints(spec.begin), Ints(spec.end), Ints(spec.strides), Floats(spec.result)},
              spec.masks);
    for (const std::vector<int64_t>& value : {spec.result, {}, {1, 1, 1, 1, 1}}) {
      const auto with = [&](CaseInput input) {
        return std::vector<CaseInput>{std::move(input), Ints(spec.begin), Ints(spec.end), Ints(spec.strides),
                                      Floats(value, 2)};
      };
      update.Call(with(Floats(spec.dims)), spec.masks);
      assign.Update(with(CaseInput::Variable(Floats(spec.dims))), spec.masks);
    }
  }
  for (D d : Join({kNumbers, {D::kBool, D::kString}})) {
    const auto any = [d](List dims, int seed) {
      return IsUnsigned(d) ? Sample(d, std::move(dims), 0, 9, seed) : Any(d, std::move(dims), seed);
    };
    for (const List& value : {List{3, 2}, {3, 1}, {2}}) {
      const auto with = [&](CaseInput input) {
        return std::vector<CaseInput>{std::move(input), Longs({3, 4}), Longs({0, 0}), Longs({-1, -3}),
                                      any(value, 2)};
      };
      update.Call(with(any({4, 6}, 1)));
      assign.Update(with(CaseInput::Variable(any({4, 6}, 1))));
    }
  }
  for (D d : kEveryWidth) {
    record.Call(
        {Any(d, {7}), Make(D::kInt16, {1}, {-1}), Make(D::kInt16, {1}, {1}), Make(D::kInt16, {1}, {-3})});
    record.Call({Any(d, {4, 6}), Longs({3, 0}), Longs({0, 5}), Longs({-1, 2})});
    grad.Call({Ints({4, 6}), Ints({3, 0}), Ints({0, 5}), Ints({-1, 2}), Any(d, {3, 3})});
  }
}

void AddHostileStridedSlice(Suite& suite) {
  const auto cut = [](List begin, List end, List strides) {
    return std::vector<CaseInput>{Floats({3}), Longs(begin), Longs(end), Longs(strides)};
  };
  OpRecord& record = suite.Op("StridedSlice");
  record.Hostile(cut({0}, {3}, {0}), "strides[0] must be non-zero")
      .Hostile(cut({3}, {4}, {1}), "slice index 3 of dimension 0", {{"shrink_axis_mask", 1}})
      .Hostile(cut({kShortest}, {0}, {1}), "out of bounds", {{"shrink_axis_mask", 1}})
      .Hostile(cut({0}, {1}, {kShortest}), "only stride 1 allowed", {{"shrink_axis_mask", 1}})
      .Hostile(cut({0, 0}, {1, 1}, {1, 1}), "more ranges")
      .Hostile(cut({0, 0}, {1, 1}, {1, 1}), "Multiple ellipses", {{"ellipsis_mask", 3}})
      .Hostile(cut({0}, {1, 1}, {1}), "one length")
      .Hostile(cut(List(40, 0), List(40, 1), List(40, 1)), "at most 32", {{"new_axis_mask", kLongest}});
}

void AddHostileStridedSliceGrad(Suite& suite) {
  OpRecord& record = suite.Op("StridedSliceGrad");
  record
      .Hostile({Ints({4}), Ints({0}), Ints({2}), Ints({1}), Floats({3})},
               "shape of dy was [3] instead of [2]")
      .Hostile({Longs({kLongest, 9}), Longs({0}), Longs({1}), Longs({1}), Floats({1, 9})}, "shape")
      .Hostile({Longs({-1}), Longs({0}), Longs({1}), Longs({1}), Floats({1})}, "shape")
      .Hostile({Ints({4}), Ints({0}), Ints({2}), Ints({0}), Floats({2})}, "strides[0] must be non-zero")
      .OutOfMemory({Longs({kWide}), Longs({0}), Longs({2}), Longs({1}), Floats({2})});
}

void AddHostileSliceUpdates(Suite& suite) {
  for (const char* op : {"TensorStridedSliceUpdate", "ResourceStridedSliceAssign"}) {
    const bool is_variable = std::string(op) == "ResourceStridedSliceAssign";
    const auto write = [&](List begin, List end, List strides, List value) {
      const Tensor target = is_variable ? HandleOf(Floats({3})) : Floats({3});
      return std::vector<CaseInput>{target, Longs(begin), Longs(end), Longs(strides), Floats(value)};
    };
    suite.Op(op)
        .Hostile(write({0}, {3}, {0}, {3}), "strides[0] must be non-zero")
        .Hostile(write({3}, {4}, {1}, {}), "slice index 3 of dimension 0", {{"shrink_axis_mask", 1}})
        .Hostile(write({0, 0}, {1, 1}, {1, 1}, {}), "more ranges")
        .Hostile(write({0}, {1, 1}, {1}, {}), "one length")
        .Hostile(write({0}, {2}, {1}, {3}), "Cannot broadcast input shape [3] into final shape [2]")
        .Hostile(write({0}, {2}, {1}, {2, 1}), "Cannot broadcast input shape [2,1] into final shape [2]")
        .Hostile(write({0}, {1}, {1}, {0}), "Cannot broadcast input shape [0] into final shape [1]");
  }
  suite.Op("ResourceStridedSliceAssign")
      .HostileHandles({CaseInput::Variable(Floats({3})), Longs({0}), Longs({2}), Longs({1}), Floats({2})})
      .Hostile({HandleOf(Floats({3})), Longs({0}), Longs({2}), Longs({1}), Ints({1, 2})},
               "holds float, asked for as int32");
}

void AddTile(Suite& suite) {
  OpRecord& record = suite.Op("Tile").Reference(Tile);
  for (D d : kEveryWidth) {
    record.Call({Any(d, {2, 3}), Ints({2, 3})});
  }
  record.Call({Floats({2, 1, 3}), Longs({1, 4, 2})})
      .Call({Floats({2}), Ints({0})})
      .Hostile({Floats({2}), Ints({-1})}, "multiples[0] = -1")
      .Hostile({Floats({2}), Ints({1, 1})}, "multiples must have one element per dimension")
      .Hostile({Floats({2, 2}), Longs({kLongest, kLongest})}, "multiples[0]")
      .Hostile({Floats({1, 1}), Longs({kLongest / 2, 3})}, "no shape has the dimensions")
      .Hostile({Floats({1, 0, 1}), Longs({kLongest / 2, 1, 3})}, "no shape has the dimensions")
      .OutOfMemory({Floats({2, 2}), Longs({kWide, 1})});
}

void AddBroadcastTo(Suite& suite) {
  OpRecord& record = suite.Op("BroadcastTo").Reference(BroadcastTo);
  for (D d : kEveryWidth) {
    record.Call({Any(d, {2, 1}), Ints({3, 2, 4})});
  }
  record.Call({Floats({}), Ints({2, 2})})
      .Call({Floats({3, 4}), Longs({3, 4})})
      .Hostile({Floats({3}), Ints({2})}, "[3] does not broadcast to [2]")
      .Hostile({Floats({3}), Ints({0})}, "[3] does not broadcast to [0]")
      .Hostile({Floats({2, 2}), Ints({2})}, "does not broadcast")
      .Hostile({Floats({1}), Longs({kLongest, 4})}, "shape")
      .Hostile({Floats({1}), Longs({-1})}, "shape")
      .OutOfMemory({Floats({1}), Longs({kWide})});
}

void AddBroadcastGradientArgs(Suite& suite) {
  const std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> pairs = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1, 3}, {4, 1}}, {{}, {2, 3}},
      {{1, 1}, {1}},    {{1}, {5}},    {{0, 3}, {1, 3}}};
  OpRecord& record =
      suite.Op("BroadcastGradientArgs").Reference(BroadcastGradientArgs).ShapeDependsOnValues();
  for (const auto& [a, b] : pairs) {
    record.Call({Ints(a), Ints(b)}).Call({Longs({b.begin(), b.end()}), Longs({a.begin(), a.end()})});
  }
  record.Hostile({Ints({2, 3}), Ints({4})}, "Incompatible shapes")
      .Hostile({Sample(D::kInt32, {2, 3}), Ints({4})}, "s0 must be a vector");
}

void AddBroadcastArgs(Suite& suite) {
  suite.Op("BroadcastArgs")
      .Reference(BroadcastArgs)
      .Call({Ints({2, 1}), Ints({3})})
      .Call({Longs({3}), Longs({4, 1, 1})})
      .Call({Ints({2, 0}), Ints({1})})
      .Call({Ints({}), Ints({5, 6})})
      .Call({Ints({}), Ints({})})
      .Call({Ints({-1, 2}), Ints({1})})
      .Hostile({Ints({2, 2}), Ints({3})}, "Incompatible shapes: int32[2] {2, 2} vs. int32[1] {3}")
      .Hostile({Ints({-1, 2}), Ints({3, 1})}, "Incompatible shapes")
      .Hostile({Int(2), Ints({3})}, "s0 must be a vector, is []")
      .Hostile({Longs({2}), Sample(DType::kInt64, {1, 2})}, "s1 must be a vector, is [1,2]");
}

}  // namespace

void AddSlicingRecords(Suite& suite) {
  AddSlice(suite);
  AddStridedSlices(suite);
  AddHostileStridedSlice(suite);
  AddHostileStridedSliceGrad(suite);
  AddHostileSliceUpdates(suite);
  AddTile(suite);
  AddBroadcastTo(suite);
  AddBroadcastGradientArgs(suite);
  AddBroadcastArgs(suite);
}

}  // namespace weir::conformance
