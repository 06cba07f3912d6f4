// Elementwise ops, comparisons, reductions, matrix products.
#include <algorithm>

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

  for (const char* op : {"Tanh", "Sigmoid", "Floor"}) add(op, Floats(), OneOperand());
  for (const char* op : {"Neg", "Abs", "Square", "Sign"}) add(op, Numbers(), OneOperand());
  add("Exp", Floats(), OneOperandBetween(-4, 3));
  for (const char* op : {"Sqrt", "Rsqrt", "Log"}) add(op, Floats(), OneOperandBetween(0.1, 20));
  add("Log1p", Floats(), OneOperandBetween(-0.8, 20));
  add("Reciprocal", Floats(), OneOperandBetween(0.2, 20));
  add("IsNan", Floats(), OneOperand(), 1);
  add("IsFinite", Floats(), OneOperand(), 1);
  add("TanhGrad", Floats(), TwoOfOneShape(), 2);
  add("SigmoidGrad", Floats(), TwoOfOneShape(), 2);

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
  add("ArgMax", Numbers(), DrawArgMax, 3);
  add("L2Loss", Floats(), OneOperand());
  add("MatMul", Numbers(), DrawMatMul, 8);
}

}  // namespace weir::random_graphs
