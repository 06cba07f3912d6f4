// Shapes, layouts, indexing.
#include <algorithm>
#include <cmath>

#include "kernels/reference/array.h"

namespace weir::reference {
namespace {

Array Vector(const Index& values) {
  Array result({static_cast<int64_t>(values.size())});
  for (int64_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(values[i]);
  return result;
}

Array Scalar(double value) { return Array({}, Value(value)); }

// An array whose element at every index is `f(index)`.
Array Generate(Index dims, const std::function<Value(const Index&)>& f) {
  Array result(std::move(dims));
  for (int64_t i = 0; i < result.size(); ++i) result[i] = f(result.IndexOf(i));
  return result;
}

void PassThrough(Call& call) {
  for (size_t i = 0; i < call.outputs.size(); ++i) call.outputs[i] = call.in(static_cast<int>(i));
}

void Reshape(Call& call) {
  Index dims = call.in(1).integers();
  int64_t known = 1;
  for (int64_t dim : dims) known *= dim == -1 ? 1 : dim;
  for (int64_t& dim : dims) dim = dim == -1 ? call.in(0).size() / known : dim;
  call.outputs[0] = call.in(0).WithDims(dims);
}

void ExpandDims(Call& call) {
  Index dims = call.in(0).dims();
  dims.insert(dims.begin() + Call::Axis(call.in(1)[0].integer(), call.in(0).rank() + 1), 1);
  call.outputs[0] = call.in(0).WithDims(dims);
}

void Squeeze(Call& call) {
  const Array& input = call.in(0);
  std::vector<bool> named(input.rank(), call.integers("squeeze_dims").empty());
  for (int64_t axis : call.integers("squeeze_dims")) named[Call::Axis(axis, input.rank())] = true;
  Index dims;
  for (int i = 0; i < input.rank(); ++i) {
    if (!named[i] || input.dim(i) != 1) dims.push_back(input.dim(i));
  }
  call.outputs[0] = input.WithDims(dims);
}

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

void Transpose(Call& call) {
  const Index perm = call.in(1).integers();
  Index dims;
  for (int64_t from : perm) dims.push_back(call.in(0).dim(static_cast<int>(from)));
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    Index source(index.size());
    for (size_t i = 0; i < index.size(); ++i) source[perm[i]] = index[i];
    return call.in(0).at(source);
  });
}

void InvertPermutation(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  for (int64_t i = 0; i < call.in(0).size(); ++i)
    call.outputs[0][call.in(0)[i].integer()] = static_cast<double>(i);
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

void Range(Call& call) {
  const double start = call.in(0)[0].real(), limit = call.in(1)[0].real(), delta = call.in(2)[0].real();
  std::vector<double> values;
  for (int i = 0; delta > 0 ? start + i * delta < limit : start + i * delta > limit; ++i) {
    values.push_back(start + i * delta);
  }
  call.outputs[0] = Array({static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) call.outputs[0][static_cast<int64_t>(i)] = values[i];
}

void GatherV2(Call& call) {
  const Array &params = call.in(0), &indices = call.in(1);
  const int axis = Call::Axis(call.in(2)[0].integer(), params.rank());
  const int batch = Call::Axis(call.integer("batch_dims"), indices.rank());
  Index dims(params.dims().begin(), params.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin() + batch, indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + axis + 1, params.dims().end());
  const int own = indices.rank() - batch;  // dimensions of the result that come from indices alone
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    Index which(index.begin(), index.begin() + batch);
    which.insert(which.end(), index.begin() + axis, index.begin() + axis + own);
    Index source(index.begin(), index.begin() + axis);
    source.push_back(indices.at(which).integer());
    source.insert(source.end(), index.begin() + axis + own, index.end());
    return params.at(source);
  });
}

void OneHot(Call& call) {
  const Array& indices = call.in(0);
  const int axis = Call::Axis(call.integer("axis"), indices.rank() + 1);
  Index dims = indices.dims();
  dims.insert(dims.begin() + axis, call.in(1)[0].integer());
  call.outputs[0] = Generate(dims, [&](Index index) {
    const int64_t position = index[axis];
    index.erase(index.begin() + axis);
    return indices.at(index).integer() == position ? call.in(2)[0] : call.in(3)[0];
  });
}

void Select(Call& call) {
  const Array& condition = call.in(0);
  call.outputs[0] = Generate(call.in(1).dims(), [&](const Index& index) {
    const Index own(index.begin(), index.begin() + condition.rank());
    return condition.at(own).is_zero() ? call.in(2).at(index) : call.in(1).at(index);
  });
}

void SelectV2(Call& call) {
  int rank = 0;
  for (const Array& input : call.inputs) rank = std::max(rank, input.rank());
  Index dims(rank, 1);
  for (const Array& input : call.inputs) {
    for (int i = 0; i < input.rank(); ++i) {
      if (input.dim(i) != 1) dims[rank - input.rank() + i] = input.dim(i);
    }
  }
  const auto at = [](const Array& input, const Index& index) {
    Index own(index.end() - input.rank(), index.end());
    for (int i = 0; i < input.rank(); ++i) own[i] = input.dim(i) == 1 ? 0 : own[i];
    return input.at(own);
  };
  call.outputs[0] = Generate(dims, [&](const Index& index) {
    return at(call.in(0), index).is_zero() ? at(call.in(2), index) : at(call.in(1), index);
  });
}

void Where(Call& call) {
  const Array& input = call.in(0);
  std::vector<Index> found;
  for (int64_t i = 0; i < input.size(); ++i) {
    if (!input[i].is_zero()) found.push_back(input.IndexOf(i));
  }
  call.outputs[0] = Generate({static_cast<int64_t>(found.size()), input.rank()},
                             [&](const Index& index) { return Value(double(found[index[0]][index[1]])); });
}

void Pad(Call& call) {
  const Array &input = call.in(0), &paddings = call.in(1);
  Index dims = input.dims();
  for (int i = 0; i < input.rank(); ++i)
    dims[i] += paddings.at({i, 0}).integer() + paddings.at({i, 1}).integer();
  Array& out = call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < input.size(); ++i) {
    Index index = input.IndexOf(i);
    for (int d = 0; d < input.rank(); ++d) index[d] += paddings.at({d, 0}).integer();
    out.at(index) = input[i];
  }
}

void Cast(Call& call) {
  call.outputs[0] = call.in(0);
  const DType target = call.node.output_type(0);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    Value& value = call.outputs[0][i];
    if (!IsComplex(target)) value = value.real();
    if (!IsComplex(target) && !IsFloating(target) && target != DType::kBool) value = std::trunc(value.real());
  }
}

}  // namespace

void AddArrayReferences(References& references) {
  references["Const"] = [](Call& call) {
    call.outputs[0] = Array::FromTensor(call.node.attr<Tensor>("value"));
  };
  for (const char* op :
       {"Identity", "IdentityN", "StopGradient", "PlaceholderWithDefault", "CheckNumerics"}) {
    references[op] = PassThrough;
  }
  references["NoOp"] = references["Assert"] = [](Call&) {};
  references["Shape"] = references["ShapeN"] = [](Call& call) {
    for (size_t i = 0; i < call.inputs.size(); ++i) call.outputs[i] = Vector(call.inputs[i].dims());
  };
  references["Size"] = [](Call& call) { call.outputs[0] = Scalar(static_cast<double>(call.in(0).size())); };
  references["Rank"] = [](Call& call) { call.outputs[0] = Scalar(call.in(0).rank()); };
  references["Reshape"] = Reshape;
  references["ExpandDims"] = ExpandDims;
  references["Squeeze"] = Squeeze;
  references["Fill"] = [](Call& call) { call.outputs[0] = Array(call.in(0).integers(), call.in(1)[0]); };
  references["ZerosLike"] = [](Call& call) { call.outputs[0] = Array(call.in(0).dims()); };
  references["OnesLike"] = [](Call& call) { call.outputs[0] = Array(call.in(0).dims(), Value(1.0)); };
  references["ConcatV2"] = ConcatV2;
  references["ConcatOffset"] = ConcatOffset;
  references["Split"] = Split;
  references["Pack"] = Pack;
  references["Unpack"] = Unpack;
  references["Slice"] = Slice;
  references["StridedSlice"] = StridedSlice;
  references["StridedSliceGrad"] = StridedSliceGrad;
  references["Transpose"] = Transpose;
  references["InvertPermutation"] = InvertPermutation;
  references["Tile"] = Tile;
  references["BroadcastTo"] = BroadcastTo;
  references["BroadcastGradientArgs"] = BroadcastGradientArgs;
  references["Range"] = Range;
  references["GatherV2"] = GatherV2;
  references["OneHot"] = OneHot;
  references["Select"] = Select;
  references["SelectV2"] = SelectV2;
  references["Where"] = Where;
  references["Pad"] = Pad;
  references["Cast"] = Cast;
}

}  // namespace weir::reference
