// Elementwise ops, comparisons, reductions, matrix products.
#include <algorithm>
#include <map>
#include <string>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

Call DrawAddN(Pool& pool, DType dtype) {
  const Operand first = pool.Any(dtype);
  std::vector<Output> inputs = {first.output};
  for (int64_t count = pool.random().Below(4); count > 0; --count) {
    inputs.push_back(pool.OfShape(dtype, first.dims()).output);
  }
  return OpCall{{InputArg(inputs)}};
}

// Any axes, some from the back; sometimes a scalar stands for a list of one.
Call DrawReduction(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (pool.random().Chance(50)) axes.push_back(pool.random().Chance(30) ? i - x.rank() : i);
  }
  const Output list =
      axes.size() == 1 && pool.random().Chance(20) ? pool.Integer(axes[0]) : pool.Integers(axes);
  return OpCall{{x.output, list}, {{"keep_dims", pool.random().Chance(30)}}};
}

Call DrawArgMax(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, 1);
  const int64_t axis = pool.random().Below(x.rank());
  if (x.value.dim(static_cast<int>(axis)) == 0) return std::nullopt;
  return OpCall{{x.output, pool.Integer(pool.random().Chance(30) ? axis - x.rank() : axis)},
                {{"output_type", pool.random().Pick(Integers())}}};
}

Call DrawMatMul(Pool& pool, DType dtype) {
  const Operand a = pool.OfRank(dtype, 2);
  const bool ta = pool.random().Chance(30), tb = pool.random().Chance(30);
  const int64_t inner = a.value.dim(ta ? 0 : 1);
  const Operand b = pool.Draw(
      dtype,
      [&](const Operand& operand) { return operand.rank() == 2 && operand.value.dim(tb ? 1 : 0) == inner; },
      [&] {
        const int64_t columns = pool.random().Between(1, 4);
        return pool.Leaf(dtype, tb ? Index{columns, inner} : Index{inner, columns});
      });
  return OpCall{{a.output, b.output}, {{"transpose_a", ta}, {"transpose_b", tb}}};
}

// An op's gradient rule: y and dy of one shape.
Call DrawFusedGrad(Pool& pool, DType dtype) {
  const Operand y = pool.Any(dtype);
  return OpCall{{y.output, pool.OfShape(dtype, y.dims()).output}};
}

Call DrawClip(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  return OpCall{{x.output, pool.OfShapeBetween(dtype, {}, -1, 0).output,
                 pool.OfShapeBetween(dtype, pool.random().Chance(70) ? Index{} : x.dims(), 0.5, 2).output}};
}

Call ScanAlongAnyAxis(Pool& pool, const Operand& x) {
  return OpCall{{x.output, pool.Integer(MaybeFromBack(pool, AnyAxis(pool, x.rank()), x.rank()))},
                {{"exclusive", pool.random().Chance(30)}, {"reverse", pool.random().Chance(30)}}};
}

Call DrawSums(Pool& pool, DType dtype) { return ScanAlongAnyAxis(pool, pool.OfRankAtLeast(dtype, 1)); }

// The gradient divides by the elements; for 0 it gives 0, as TensorFlow's does.
Call DrawProducts(Pool& pool, DType dtype) {
  const Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Between(1, 3)));
  const bool is_negative = pool.random().Chance(40);
  return ScanAlongAnyAxis(pool, is_negative ? pool.OfShapeBetween(dtype, dims, -3, -0.5)
                                            : pool.OfShapeBetween(dtype, dims, 0.5, 3));
}

Call DrawCross(Pool& pool, DType dtype) {
  const Operand x = pool.Draw(
      dtype, [](const Operand& operand) { return operand.rank() > 0 && operand.dims().back() == 3; },
      [&] {
        Index dims = pool.DimsOfRank(static_cast<int>(pool.random().Below(2)));
        dims.push_back(3);
        return pool.Leaf(dtype, dims);
      });
  return OpCall{{x.output, pool.OfShape(dtype, x.dims()).output}};
}

// The batches are equal, or broadcast.
DrawCall DrawBatchMatMul(bool broadcasts) {
  return [broadcasts](Pool& pool, DType dtype) -> Call {
    Random& random = pool.random();
    const Operand x = pool.OfRankAtLeast(dtype, 2);
    if (x.rank() > 4) return std::nullopt;
    const bool adj_x = random.Chance(30), adj_y = random.Chance(30);
    const int64_t inner = x.value.dim(x.rank() - (adj_x ? 2 : 1)), columns = random.Between(1, 3);
    Index dims(x.dims().begin(), x.dims().end() - 2);
    if (broadcasts && random.Chance(40))
      dims.erase(dims.begin(), dims.begin() + random.Below(dims.size() + 1));
    for (int64_t& dim : dims) dim = broadcasts && random.Chance(30) ? 1 : dim;
    dims.push_back(adj_y ? columns : inner);
    dims.push_back(adj_y ? inner : columns);
    return OpCall{{x.output, pool.OfShape(dtype, dims).output}, {{"adj_x", adj_x}, {"adj_y", adj_y}}};
  };
}

// Operands of one or two terms, whose labels get dimensions by chance.
Call DrawEinsum(Pool& pool, DType dtype) {
  const std::string equation = pool.random().Pick<std::string>(
      {"ij,jk->ik", "bij,bjk->bik", "ij,kj->ki", "ij->ji", "ii->i", "ii->", "ij->", "i,j->ij", "i,i->",
       "ij,ij->i", "ijk,jl->il", "ij,j->i", "i->ii", "bi,bj->bij"});
  std::map<char, int64_t> dims_of;
  std::vector<Output> inputs;
  Index dims;
  const auto add = [&] {
    inputs.push_back(pool.OfShape(dtype, dims).output);
    dims.clear();
  };
  for (char label : equation.substr(0, equation.find('-'))) {
    if (label == ',') {
      add();
      continue;
    }
    const auto [found, is_new] = dims_of.emplace(label, 0);
    if (is_new) found->second = pool.random().Between(1, 4);
    dims.push_back(found->second);
  }
  add();
  return OpCall{{InputArg(inputs)}, {{"equation", equation}}};
}

Call DrawLinSpace(Pool& pool, DType dtype) {
  return OpCall{{pool.OfRank(dtype, 0).output, pool.OfRank(dtype, 0).output,
                 pool.Integer(pool.random().Between(1, 6))}};
}

// The order of a derivative is a whole number.
Call DrawPolygamma(Pool& pool, DType dtype) {
  const Operand x = pool.Between(dtype, 0.5, 20);
  return OpCall{{pool.Exactly(Array({}, static_cast<double>(pool.random().Between(0, 3))), dtype), x.output}};
}

// The first operand has no gradient, in TensorFlow neither.
Call DrawZeta(Pool& pool, DType dtype) {
  const Operand q = pool.Between(dtype, 0.5, 9);
  const double x = 1.25 + 0.25 * static_cast<double>(pool.random().Below(20));
  return OpCall{{pool.Exactly(Array({}, x), dtype), q.output}};
}

// Only x has a gradient, in TensorFlow too, which finds its shape where both parameters have one.
Call DrawBetainc(Pool& pool, DType dtype) {
  const Operand x = pool.Between(dtype, 0.0625, 0.9375);
  Index dims = pool.random().Chance(50) ? Index{} : x.dims();
  if (x.rank() == 0 && pool.random().Chance(50)) dims = pool.AnyDims();
  const auto parameter = [&] {
    Array values(dims);
    for (int64_t i = 0; i < values.size(); ++i) {
      values[i] = 0.5 + 0.25 * static_cast<double>(pool.random().Below(20));
    }
    return pool.Exactly(values, dtype);
  };
  const Output a = parameter(), b = parameter();
  return OpCall{{a, b, x.output}};
}

}  // namespace

DrawCall OneOperand(AttrMap attrs) {
  return [attrs](Pool& pool, DType dtype) -> Call { return OpCall{{pool.Any(dtype).output}, attrs}; };
}

DrawCall OneOperandBetween(double low, double high, AttrMap attrs) {
  return [=](Pool& pool, DType dtype) -> Call {
    return OpCall{{pool.Between(dtype, low, high).output}, attrs};
  };
}

DrawCall TwoThatBroadcast() {
  return [](Pool& pool, DType dtype) -> Call {
    const Operand x = pool.Any(dtype);
    const Operand y = pool.BroadcastsWith(dtype, x.dims());
    if (pool.random().Chance(50)) return OpCall{{y.output, x.output}};
    return OpCall{{x.output, y.output}};
  };
}

DrawCall TwoBetween(double low0, double high0, double low1, double high1) {
  return [=](Pool& pool, DType dtype) -> Call {
    const Operand x = pool.Between(dtype, low0, high0);
    const Operand y = pool.OfShapeBetween(dtype, pool.random().Chance(70) ? x.dims() : Index{}, low1, high1);
    return OpCall{{x.output, y.output}};
  };
}

DrawCall TwoOfOneShape() { return DrawFusedGrad; }
DrawCall TwoOfOneShapeBetween(double low, double high) {
  return [=](Pool& pool, DType dtype) -> Call {
    const Operand x = pool.Between(dtype, low, high);
    return OpCall{{x.output, pool.OfShape(dtype, x.dims()).output}};
  };
}

void AddMathRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 4) {
    rows->push_back({op, dtypes, draw, weight});
  };
  // Sums and products make most of a model.
  add("AddV2", Numbers(), TwoThatBroadcast(), 12);
  add("Mul", Numbers(), TwoThatBroadcast(), 12);
  add("Sub", Numbers(), TwoThatBroadcast(), 8);
  add("AddN", Numbers(), DrawAddN, 12);
  add("Add", Numbers(), TwoThatBroadcast(), 2);
  add("SquaredDifference", Numbers(), TwoThatBroadcast());
  add("Maximum", Numbers(), TwoThatBroadcast());
  add("Minimum", Numbers(), TwoThatBroadcast());
  add("RealDiv", Floats(), TwoBetween(-3, 3, 0.5, 3));
  add("Div", Numbers(), TwoBetween(-9, 9, 1, 4));
  add("DivNoNan", Floats(), TwoBetween(-3, 3, 0.5, 3), 2);
  add("FloorDiv", Numbers(), TwoBetween(-9, 9, 1, 4), 2);
  add("FloorMod", Numbers(), TwoBetween(-9, 9, 1, 4), 2);
  add("Pow", Floats(), TwoBetween(0.5, 2, -2, 2), 3);

  add("Mod", Numbers(), TwoBetween(-9, 9, 1, 4), 1);
  add("TruncateMod", Numbers(), TwoBetween(-9, 9, 1, 4), 1);
  add("TruncateDiv", Numbers(), TwoBetween(-9, 9, 1, 4), 1);
  add("MulNoNan", Floats(), TwoThatBroadcast(), 2);
  // At x = 0 their gradients are 0, as in TensorFlow, and not the derivatives.
  add("Xdivy", Floats(), TwoBetween(0.25, 3, 0.5, 3), 2);
  add("Xlogy", Floats(), TwoBetween(0.25, 3, 0.2, 5), 2);
  add("Xlog1py", Floats(), TwoBetween(0.25, 3, -0.6, 5), 2);
  add("Atan2", Floats(), TwoBetween(-3, 3, 0.25, 3), 1);
  add("Atan2", Floats(), TwoBetween(0.25, 3, -3, 3), 1);
  add("Polygamma", BigFloats(), DrawPolygamma, 1);
  add("Zeta", BigFloats(), DrawZeta, 1);
  for (const char* op : {"Igamma", "Igammac", "IgammaGradA"})
    add(op, BigFloats(), TwoBetween(0.5, 9, 0.25, 20), 1);
  add("Betainc", BigFloats(), DrawBetainc, 1);
  add("ClipByValue", Numbers(), DrawClip, 3);
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    add(op, AllIntegers(), TwoThatBroadcast(), 2);
  for (const char* op : {"Invert", "PopulationCount"}) add(op, AllIntegers(), OneOperand(), 1);
  for (const char* op : {"LeftShift", "RightShift"}) add(op, AllIntegers(), TwoBetween(0, 9, 0, 3), 1);

  for (const char* op : {"Tanh", "Sigmoid", "Floor"}) add(op, Floats(), OneOperand());
  for (const char* op : {"Sin", "Cos", "Atan", "Asinh", "Erf", "Erfc", "Ceil", "Rint"}) {
    add(op, Floats(), OneOperand(), 2);
  }
  add("Round", Numbers(), OneOperand(), 2);
  for (const char* op : {"Asin", "Acos", "Atanh"}) add(op, Floats(), OneOperandBetween(-0.9, 0.9), 1);
  for (const char* op : {"Sinh", "Cosh", "Expm1"}) add(op, Floats(), OneOperandBetween(-4, 3), 1);
  for (const char* op : {"Lgamma", "Digamma", "Inv"}) add(op, Floats(), OneOperandBetween(0.25, 20), 1);
  add("Erfinv", BigFloats(), OneOperandBetween(-0.875, 0.875), 1);
  add("Ndtri", BigFloats(), OneOperandBetween(0.0625, 0.9375), 1);
  add("Acosh", Floats(), OneOperandBetween(1.25, 20), 1);
  add("Tan", Floats(), OneOperandBetween(-1.25, 1.25), 1);
  add("IsInf", Floats(), OneOperand(), 1);
  for (const char* op : {"Neg", "Abs", "Square", "Sign"}) add(op, Numbers(), OneOperand());
  add("Exp", Floats(), OneOperandBetween(-4, 3));
  for (const char* op : {"Sqrt", "Rsqrt", "Log"}) add(op, Floats(), OneOperandBetween(0.1, 20));
  add("Log1p", Floats(), OneOperandBetween(-0.8, 20));
  add("Reciprocal", Floats(), OneOperandBetween(0.2, 20));
  add("IsNan", Floats(), OneOperand(), 1);
  add("IsFinite", Floats(), OneOperand(), 1);
  add("TanhGrad", Floats(), TwoOfOneShape(), 2);
  add("SigmoidGrad", Floats(), TwoOfOneShape(), 2);
  for (const char* op : {"InvGrad", "ReciprocalGrad", "RsqrtGrad"}) add(op, Floats(), TwoOfOneShape(), 1);
  add("SqrtGrad", Floats(), TwoOfOneShapeBetween(0.25, 9), 1);

  for (const char* op : {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"}) {
    add(op, Numbers(), TwoThatBroadcast(), 2);
  }
  add("LogicalAnd", Bools(), TwoThatBroadcast());
  add("LogicalOr", Bools(), TwoThatBroadcast());
  add("LogicalNot", Bools(), OneOperand());

  for (const char* op : {"Sum", "Mean", "Max", "Min"}) add(op, Numbers(), DrawReduction, 5);
  add("Prod", Numbers(), DrawReduction, 2);
  add("All", Bools(), DrawReduction, 2);
  add("Any", Bools(), DrawReduction, 2);
  add("EuclideanNorm", Floats(), DrawReduction, 2);
  add("ArgMax", Numbers(), DrawArgMax, 3);
  add("ArgMin", Numbers(), DrawArgMax, 2);
  add("Cumsum", Numbers(), DrawSums, 3);
  add("Cumprod", Numbers(), DrawProducts, 1);
  add("Cross", Numbers(), DrawCross, 1);
  add("LinSpace", Floats(), DrawLinSpace, 1);
  add("BatchMatMul", Numbers(), DrawBatchMatMul(/*broadcasts=*/false), 2);
  add("BatchMatMulV2", Numbers(), DrawBatchMatMul(/*broadcasts=*/true), 3);
  add("Einsum", Floats(), DrawEinsum, 3);
  add("L2Loss", Floats(), OneOperand());
  add("MatMul", Numbers(), DrawMatMul, 8);
}

}  // namespace weir::random_graphs
