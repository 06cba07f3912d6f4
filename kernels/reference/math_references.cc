// Arithmetic, comparisons, reductions, matrix products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/array.h"

namespace weir::reference {
namespace {

using Unary = std::function<Number(Number)>;
using Binary = std::function<Number(Number, Number)>;

// The element of a broadcast operand at an index of the result.
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

Reference Map(Unary f) {
  return [f](Call& call) {
    call.outputs[0] = Array(call.in(0).dims());
    for (int64_t i = 0; i < call.in(0).size(); ++i) call.outputs[0][i] = f(call.in(0)[i].number);
  };
}

Reference MapTwo(std::function<Value(const Value&, const Value&)> f) {
  return [f](Call& call) {
    Array& out = call.outputs[0] = Array(BroadcastDims(call.in(0), call.in(1)));
    for (int64_t i = 0; i < out.size(); ++i) {
      const Index index = out.IndexOf(i);
      out[i] = f(BroadcastAt(call.in(0), index), BroadcastAt(call.in(1), index));
    }
  };
}

Reference Map(Binary f) {
  return MapTwo([f](const Value& x, const Value& y) { return Value(f(x.number, y.number)); });
}

Reference Compare(std::function<bool(double, double)> f) {
  return MapTwo([f](const Value& x, const Value& y) { return Value(f(x.real(), y.real()) ? 1.0 : 0.0); });
}

bool IsInteger(DType dtype) { return !IsFloating(dtype) && !IsComplex(dtype); }

// The same op on integers and on real or complex numbers.
Reference ByType(Binary integers, Binary others) {
  return [=](Call& call) { Map(IsInteger(call.node.input_type(0)) ? integers : others)(call); };
}

Number FloorOfQuotient(Number x, Number y) { return std::floor(x.real() / y.real()); }
Number Modulus(Number x, Number y) { return x.real() - std::floor(x.real() / y.real()) * y.real(); }
double NanOr(double x, double y, double result) {
  return std::isnan(x) || std::isnan(y) ? std::nan("") : result;
}

// Calls visit(index of the output, value) for every element of the input, in order.
void Reduce(Call& call, double start, std::function<Number(Number, Number)> combine, bool mean = false) {
  const Array& input = call.in(0);
  std::vector<bool> reduced(input.rank(), false);
  for (int64_t axis : call.in(1).integers()) reduced[Call::Axis(axis, input.rank())] = true;
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
  for (int64_t i = 0; i < result.size() && mean; ++i) result[i] = result[i].number / double(count);
  call.outputs[0] = result.WithDims(dims);
}

void ArgMax(Call& call) {
  const Array& input = call.in(0);
  const int axis = Call::Axis(call.in(1)[0].integer(), input.rank());
  Index dims = input.dims();
  dims.erase(dims.begin() + axis);
  Array& out = call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < out.size(); ++i) {
    Index index = out.IndexOf(i);
    index.insert(index.begin() + axis, 0);
    Index best = index;
    for (int64_t k = 1; k < input.dim(axis); ++k) {
      index[axis] = k;
      const double value = input.at(index).real(), largest = input.at(best).real();
      if (value > largest || (std::isnan(largest) && !std::isnan(value))) best = index;  // NaN is no number
    }
    out[i] = static_cast<double>(best[axis]);
  }
}

void MatMul(Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  const bool ta = call.flag("transpose_a"), tb = call.flag("transpose_b");
  const int64_t rows = a.dim(ta ? 1 : 0), inner = a.dim(ta ? 0 : 1), columns = b.dim(tb ? 0 : 1);
  Array& out = call.outputs[0] = Array({rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      Number sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += a.at(ta ? Index{k, i} : Index{i, k}).number * b.at(tb ? Index{j, k} : Index{k, j}).number;
      }
      out.at({i, j}) = sum;
    }
  }
}

void AddN(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  for (const Array& input : call.inputs) {
    for (int64_t i = 0; i < input.size(); ++i) call.outputs[0][i].number += input[i].number;
  }
}

void L2Loss(Call& call) {
  double sum = 0;
  for (int64_t i = 0; i < call.in(0).size(); ++i) sum += std::norm(call.in(0)[i].number);
  call.outputs[0] = Array({}, Value(sum / 2));
}

}  // namespace

void AddMathReferences(References& references) {
  const Binary add = [](Number x, Number y) { return x + y; };
  const Binary quotient = [](Number x, Number y) { return x / y; };
  const auto real = [](double (*f)(double)) {
    return Map(Unary([f](Number x) { return Number(f(x.real())); }));
  };
  const double infinity = std::numeric_limits<double>::infinity();

  references["AddV2"] = Map(add);
  references["Add"] = MapTwo([](const Value& x, const Value& y) {
    Value sum(x.number + y.number);
    sum.text = x.text + y.text;
    return sum;
  });
  references["AddN"] = AddN;
  references["Sub"] = Map(Binary([](Number x, Number y) { return x - y; }));
  references["Mul"] = Map(Binary([](Number x, Number y) { return x * y; }));
  references["Div"] =
      ByType([](Number x, Number y) { return Number(std::trunc(x.real() / y.real())); }, quotient);
  references["RealDiv"] = Map(quotient);
  references["FloorDiv"] = Map(Binary(FloorOfQuotient));
  references["FloorMod"] = Map(Binary(Modulus));
  references["DivNoNan"] = Map(Binary([](Number x, Number y) { return y == Number(0) ? Number(0) : x / y; }));
  references["Pow"] =
      ByType([](Number x, Number y) { return Number(std::pow(x.real(), y.real())); },
             [](Number x, Number y) {
               return x.imag() == 0 && y.imag() == 0 ? Number(std::pow(x.real(), y.real())) : std::pow(x, y);
             });
  references["Maximum"] = Map(Binary(
      [](Number x, Number y) { return Number(NanOr(x.real(), y.real(), std::max(x.real(), y.real()))); }));
  references["Minimum"] = Map(Binary(
      [](Number x, Number y) { return Number(NanOr(x.real(), y.real(), std::min(x.real(), y.real()))); }));
  references["SquaredDifference"] = Map(Binary([](Number x, Number y) { return Number(std::norm(x - y)); }));
  references["TanhGrad"] = Map(Binary([](Number y, Number dy) { return dy * (1.0 - y * y); }));
  references["SigmoidGrad"] = Map(Binary([](Number y, Number dy) { return dy * y * (1.0 - y); }));

  references["Equal"] = MapTwo([](const Value& x, const Value& y) {
    return Value(x.number == y.number && x.text == y.text ? 1.0 : 0.0);
  });
  references["NotEqual"] = MapTwo([](const Value& x, const Value& y) {
    return Value(x.number == y.number && x.text == y.text ? 0.0 : 1.0);
  });
  references["Less"] = Compare([](double x, double y) { return x < y; });
  references["LessEqual"] = Compare([](double x, double y) { return x <= y; });
  references["Greater"] = Compare([](double x, double y) { return x > y; });
  references["GreaterEqual"] = Compare([](double x, double y) { return x >= y; });
  references["LogicalAnd"] = Compare([](double x, double y) { return x != 0 && y != 0; });
  references["LogicalOr"] = Compare([](double x, double y) { return x != 0 || y != 0; });
  references["LogicalNot"] = real([](double x) { return x == 0 ? 1.0 : 0.0; });

  references["Neg"] = Map(Unary([](Number x) { return -x; }));
  references["Square"] = Map(Unary([](Number x) { return x * x; }));
  references["Sqrt"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(std::sqrt(x.real())) : std::sqrt(x); }));
  references["Rsqrt"] = Map(
      Unary([](Number x) { return x.imag() == 0 ? Number(1 / std::sqrt(x.real())) : 1.0 / std::sqrt(x); }));
  references["Reciprocal"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(1 / x.real()) : 1.0 / x; }));
  references["Exp"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(std::exp(x.real())) : std::exp(x); }));
  references["Log"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(std::log(x.real())) : std::log(x); }));
  references["Log1p"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(std::log1p(x.real())) : std::log(1.0 + x); }));
  references["Abs"] = real([](double x) { return std::abs(x); });
  references["Sign"] = Map(Unary([](Number x) {
    if (x.imag() == 0) return x.real() > 0 ? Number(1) : x.real() < 0 ? Number(-1) : x;
    return x / std::abs(x);
  }));
  references["Floor"] = real([](double x) { return std::floor(x); });
  references["Tanh"] =
      Map(Unary([](Number x) { return x.imag() == 0 ? Number(std::tanh(x.real())) : std::tanh(x); }));
  references["Sigmoid"] = Map(Unary([](Number x) {
    return x.imag() == 0 ? Number(1 / (1 + std::exp(-x.real()))) : 1.0 / (1.0 + std::exp(-x));
  }));
  references["IsFinite"] = real([](double x) { return std::isfinite(x) ? 1.0 : 0.0; });
  references["IsNan"] = real([](double x) { return std::isnan(x) ? 1.0 : 0.0; });

  const auto largest = [](Number x, Number y) {
    return Number(NanOr(x.real(), y.real(), std::max(x.real(), y.real())));
  };
  const auto least = [](Number x, Number y) {
    return Number(NanOr(x.real(), y.real(), std::min(x.real(), y.real())));
  };
  references["Sum"] = [add](Call& call) { Reduce(call, 0, add); };
  references["Mean"] = [add](Call& call) { Reduce(call, 0, add, true); };
  references["Prod"] = [](Call& call) { Reduce(call, 1, [](Number x, Number y) { return x * y; }); };
  references["Max"] = [=](Call& call) { Reduce(call, -infinity, largest); };
  references["Min"] = [=](Call& call) { Reduce(call, infinity, least); };
  references["All"] = [=](Call& call) { Reduce(call, 1, least); };
  references["Any"] = [=](Call& call) { Reduce(call, 0, largest); };
  references["ArgMax"] = ArgMax;
  references["L2Loss"] = L2Loss;
  references["MatMul"] = MatMul;
}

}  // namespace weir::reference
