#include "tests/conformance/references.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::conformance {

using reference::Call;
using reference::Reference;

Reference EachNumber(std::function<Number(Number)> f) {
  return [f = std::move(f)](Call& call) {
    call.outputs[0] = Array(call.in(0).dims());
    for (int64_t i = 0; i < call.in(0).size(); ++i) call.outputs[0][i] = f(call.in(0)[i].number);
  };
}

Reference EachReal(std::function<double(double)> f) {
  return EachNumber([f = std::move(f)](Number x) { return Number(f(x.real())); });
}

Reference EachNumber(std::function<double(double)> real, std::function<Number(Number)> complex) {
  return [reals = EachReal(std::move(real)), complexes = EachNumber(std::move(complex))](Call& call) {
    (IsComplex(call.node.input_type(0)) ? complexes : reals)(call);
  };
}

const Value& BroadcastAt(const Array& operand, const Index& index) {
  Index own(index.end() - operand.rank(), index.end());
  for (int i = 0; i < operand.rank(); ++i) {
    if (operand.dim(i) == 1) own[i] = 0;
  }
  return operand.at(own);
}

Index BroadcastDims(const Array& x, const Array& y) {
  const int rank = std::max(x.rank(), y.rank());
  Index dims(rank, 1);
  for (const Array* operand : {&x, &y}) {
    for (int i = 0; i < operand->rank(); ++i) {
      if (operand->dim(i) != 1) dims[rank - operand->rank() + i] = operand->dim(i);
    }
  }
  return dims;
}

Reference EachPairOfValues(std::function<Value(const Value&, const Value&)> f) {
  return [f = std::move(f)](Call& call) {
    Array& out = call.outputs[0] = Array(BroadcastDims(call.in(0), call.in(1)));
    for (int64_t i = 0; i < out.size(); ++i) {
      const Index index = out.IndexOf(i);
      out[i] = f(BroadcastAt(call.in(0), index), BroadcastAt(call.in(1), index));
    }
  };
}

Reference EachPair(std::function<Number(Number, Number)> f) {
  return EachPairOfValues(
      [f = std::move(f)](const Value& x, const Value& y) { return Value(f(x.number, y.number)); });
}

Reference EachRealPair(std::function<double(double, double)> f) {
  return EachPairOfValues(
      [f = std::move(f)](const Value& x, const Value& y) { return Value(f(x.real(), y.real())); });
}

Reference ReduceWith(double start, std::function<Number(Number, Number)> combine, Finish finish) {
  return [=](Call& call) {
    const Array& input = call.in(0);
    std::vector<bool> reduced(input.rank(), false);
    for (const int64_t axis : call.in(1).integers()) reduced[Call::Axis(axis, input.rank())] = true;
    Index kept, dims;
    int64_t count = 1;
    for (int i = 0; i < input.rank(); ++i) {
      kept.push_back(reduced[i] ? 1 : input.dim(i));
      if (!reduced[i] || call.flag("keep_dims")) dims.push_back(kept[i]);
      if (reduced[i]) count *= input.dim(i);
    }
    Array result(kept, Value(start));
    for (int64_t i = 0; i < input.size(); ++i) {
      Index index = input.IndexOf(i);
      for (int d = 0; d < input.rank(); ++d) index[d] = reduced[d] ? 0 : index[d];
      result.at(index) = combine(result.at(index).number, input[i].number);
    }
    for (int64_t i = 0; i < result.size() && finish; ++i) result[i] = finish(result[i].number, count);
    call.outputs[0] = result.WithDims(dims);
  };
}

namespace {
Number NanOr(Number x, Number y, double result) {
  return std::isnan(x.real()) || std::isnan(y.real()) ? std::nan("") : result;
}
}  // namespace

Number Largest(Number x, Number y) { return NanOr(x, y, std::max(x.real(), y.real())); }
Number Least(Number x, Number y) { return NanOr(x, y, std::min(x.real(), y.real())); }

Array Generate(Index dims, const std::function<Value(const Index&)>& f) {
  Array result(std::move(dims));
  for (int64_t i = 0; i < result.size(); ++i) result[i] = f(result.IndexOf(i));
  return result;
}

Array Vector(const Index& values) {
  return Generate({static_cast<int64_t>(values.size())},
                  [&](const Index& index) { return Value(static_cast<double>(values[index[0]])); });
}

void ForEachSlice(const Array& array, int axis, const std::function<void(Index)>& visit) {
  if (axis < 0) axis += array.rank();
  Index outer = array.dims();
  outer[axis] = 1;
  const Array starts(outer);
  for (int64_t i = 0; i < starts.size() && array.size() > 0; ++i) visit(starts.IndexOf(i));
}

}  // namespace weir::conformance
