// What the rewrites of a step's graph look for (graph/rewrite): operands that change nothing, nodes that undo
// each other or become one. Drawn one by one such neighbours are rare.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

// 0, 1 or -0.0, as a scalar or in the shape of the other operand.
Output DrawNeutral(Pool& pool, DType dtype, const Index& dims, bool is_divisor) {
  double value = is_divisor || pool.random().Chance(40) ? 1 : 0;
  if (value == 0 && IsFloating(dtype) && pool.random().Chance(40)) value = -0.0;
  return pool.Exactly(Array(pool.random().Chance(70) ? Index{} : dims, value), dtype);
}

Call DrawWithNeutral(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  const Output neutral = DrawNeutral(pool, dtype, x.dims(), /*is_divisor=*/false);
  if (pool.random().Chance(50)) return OpCall{{neutral, x.output}};
  return OpCall{{x.output, neutral}};
}

Call DrawDividedByOne(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  return OpCall{{x.output, DrawNeutral(pool, dtype, x.dims(), /*is_divisor=*/true)}};
}

std::vector<int64_t> DrawPermutation(Pool& pool, int rank) {
  std::vector<int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  pool.random().Shuffle(&permutation);
  return permutation;
}

Array AsVector(const std::vector<int64_t>& numbers) {
  Array vector({static_cast<int64_t>(numbers.size())});
  for (size_t i = 0; i < numbers.size(); ++i)
    vector[static_cast<int64_t>(i)] = static_cast<double>(numbers[i]);
  return vector;
}

std::optional<Operand> Transposed(Pool& pool, const Operand& x, const std::vector<int64_t>& permutation) {
  return pool.Apply("Transpose", x, AsVector(permutation));
}

Call DrawTransposeTwice(Pool& pool, DType dtype) {
  const Operand x = pool.OfRankAtLeast(dtype, pool.random().Chance(70) ? 3 : 2);
  const std::vector<int64_t> first = DrawPermutation(pool, x.rank());
  std::vector<int64_t> second = DrawPermutation(pool, x.rank());
  if (pool.random().Chance(25)) {  // back
    for (size_t i = 0; i < first.size(); ++i) second[first[i]] = static_cast<int64_t>(i);
  }
  const std::optional<Operand> inner = Transposed(pool, x, first);
  if (!inner) return std::nullopt;
  return OpCall{{inner->output, pool.Integers(second)}};
}

// To one row, to one column or to a vector.
std::vector<int64_t> DrawFlatDims(Pool& pool, int64_t size) {
  if (size > 0 && pool.random().Chance(40)) size = -1;
  return pool.random().Pick<std::vector<int64_t>>({{size}, {1, size}, {size, 1}});
}

Call DrawReshapeTwice(Pool& pool, DType dtype) {
  const Operand x = pool.Any(dtype);
  const std::optional<Operand> inner = pool.Apply("Reshape", x, AsVector(DrawFlatDims(pool, x.value.size())));
  if (!inner) return std::nullopt;
  const bool goes_back = pool.random().Chance(50);
  return OpCall{
      {inner->output, pool.Integers(goes_back ? std::vector<int64_t>(x.dims().begin(), x.dims().end())
                                              : DrawFlatDims(pool, x.value.size()))}};
}

// Through any type; integers stay in the range of all.
Call DrawCastTwice(Pool& pool, DType dtype) {
  const DType middle = pool.random().Pick(AnyElement());
  const DType to = pool.random().Chance(40) ? dtype : pool.random().Pick(AnyElement());
  const Operand x = pool.Between(dtype, IsUnsigned(middle) || IsUnsigned(to) ? 0 : -100, 100);
  const std::optional<Operand> inner = pool.Apply("Cast", x, std::nullopt, {{"DstT", middle}});
  if (!inner) return std::nullopt;
  return OpCall{{inner->output}, {{"DstT", to}}};
}

// f(f(x))
DrawCall DrawTwice(const std::string& op) {
  return [op](Pool& pool, DType dtype) -> Call {
    const std::optional<Operand> inner = pool.Apply(op, pool.Any(dtype));
    if (!inner) return std::nullopt;
    return OpCall{{inner->output}};
  };
}

// (x*c)*d
Call DrawTwoFactors(Pool& pool, DType dtype) {
  const auto factor = [&] { return Array({}, static_cast<double>(pool.random().Between(-3, 3))); };
  const std::optional<Operand> inner = pool.Apply("Mul", pool.Any(dtype), factor());
  if (!inner) return std::nullopt;
  const Output outer = pool.Exactly(factor(), dtype);
  if (pool.random().Chance(50)) return OpCall{{outer, inner->output}};
  return OpCall{{inner->output, outer}};
}

// A product that reads a transpose. Of batches of matrices, so that the transpose may move more than the last
// two dimensions; both operands are square or as the other needs.
DrawCall DrawProductOfTranspose(const char* flag_of_transposed, const char* flag_of_other, bool has_batches) {
  return [=](Pool& pool, DType dtype) -> Call {
    const Operand x = has_batches ? pool.OfRankAtLeast(dtype, 3) : pool.OfRank(dtype, 2);
    if (x.rank() > 4) return std::nullopt;
    std::vector<int64_t> permutation = DrawPermutation(pool, x.rank());
    if (pool.random().Chance(40)) {
      std::iota(permutation.begin(), permutation.end(), 0);
      std::swap(permutation[x.rank() - 1], permutation[x.rank() - 2]);
    }
    const std::optional<Operand> transposed = Transposed(pool, x, permutation);
    if (!transposed) return std::nullopt;
    const bool is_left = pool.random().Chance(50);
    const bool flag = pool.random().Chance(30), other_flag = pool.random().Chance(30);
    // The dimension of the transposed operand that is summed over: the last on the left, unless flagged.
    const int64_t inner = transposed->value.dim(x.rank() - (is_left != flag ? 1 : 2));
    const int64_t free = pool.random().Between(1, 3);
    Index dims(transposed->dims().begin(), transposed->dims().end() - 2);
    const bool inner_is_first = is_left != other_flag;
    dims.push_back(inner_is_first ? inner : free);
    dims.push_back(inner_is_first ? free : inner);
    const Output other = pool.OfShape(dtype, dims).output;
    const AttrMap attrs = {{is_left ? flag_of_transposed : flag_of_other, flag},
                           {is_left ? flag_of_other : flag_of_transposed, other_flag}};
    if (is_left) return OpCall{{transposed->output, other}, attrs};
    return OpCall{{other, transposed->output}, attrs};
  };
}

// Of small whole numbers and quarters: exact in every dtype.
Array DrawNumbers(Pool& pool, Index dims) {
  Array numbers(std::move(dims));
  for (int64_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(pool.random().Between(-8, 8)) / 4;
  }
  return numbers;
}

// The bias of a product or a convolution: BiasAdd, or of matrices an Add.
std::optional<Operand> WithBias(Pool& pool, const Operand& product) {
  const bool is_sum = product.rank() == 2 && pool.random().Chance(30);
  return pool.Apply(is_sum ? "AddV2" : "BiasAdd", product,
                    DrawNumbers(pool, {product.value.dim(product.rank() - 1)}));
}

// act(x * w + b) of matrices.
Call DrawDenseLayer(Pool& pool, DType dtype) {
  const Operand x = pool.OfRank(dtype, 2);
  const bool is_transposed = pool.random().Chance(20);
  const int64_t inner = x.value.dim(is_transposed ? 0 : 1);
  const std::optional<Operand> product = pool.Apply(
      "MatMul", x, DrawNumbers(pool, {inner, pool.random().Between(1, 4)}), {{"transpose_a", is_transposed}});
  const std::optional<Operand> sum = product ? WithBias(pool, *product) : std::nullopt;
  if (!sum) return std::nullopt;
  return OpCall{{sum->output}};
}

Call DrawConvolutionLayer(Pool& pool, DType dtype) {
  const Operand x = DrawImage(pool, dtype);
  const std::optional<Operand> product =
      pool.Apply("Conv2D", x, DrawNumbers(pool, {1, 1, x.value.dim(3), pool.random().Between(1, 3)}),
                 {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "VALID"}});
  const std::optional<Operand> sum = product ? WithBias(pool, *product) : std::nullopt;
  if (!sum) return std::nullopt;
  return OpCall{{sum->output}};
}

// A normalization, with something added or not.
Call DrawNormalized(Pool& pool, DType dtype) {
  const Operand norm = pool.Draw(
      dtype, [](const Operand& x) { return x.output.node->op_name() == "FusedBatchNormV3"; },
      [&] { return pool.Any(dtype); });
  if (pool.random().Chance(50)) return OpCall{{norm.output}};
  const std::optional<Operand> sum = pool.Apply("AddV2", norm, DrawNumbers(pool, norm.dims()));
  if (!sum) return std::nullopt;
  return OpCall{{sum->output}};
}

// A few elementwise ops on one another, with operands of the same shape or of one element.
Call DrawFormula(Pool& pool, DType dtype) {
  Random& random = pool.random();
  Operand value = pool.Any(dtype);
  const Operand first = value;
  for (int64_t length = random.Between(1, 5); length > 0; --length) {
    std::optional<Operand> next;
    if (random.Chance(50)) {
      next = pool.Apply(
          random.Pick<std::string>({"Neg", "Abs", "Tanh", "Sigmoid", "Square", "Relu", "Softplus"}), value);
    } else {
      const Index dims = random.Chance(40) ? Index{} : random.Chance(80) ? value.dims() : Index{1};
      next = pool.Apply(
          random.Pick<std::string>({"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"}), value,
          DrawNumbers(pool, dims));
    }
    if (!next) return std::nullopt;
    value = *next;
  }
  const bool reads_first = first.dims() == value.dims() && random.Chance(60);
  if (random.Chance(50) && reads_first) return OpCall{{first.output, value.output}};
  return OpCall{{value.output, reads_first ? first.output : value.output}};
}

}  // namespace

void AddRewriteRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight) {
    rows->push_back({op, dtypes, draw, weight});
  };
  for (const char* op : {"AddV2", "Mul"}) add(op, Numbers(), DrawWithNeutral, 6);
  add("Sub", Numbers(), DrawWithNeutral, 12);  // the one of them whose order counts
  add("Add", Numbers(), DrawWithNeutral, 2);
  add("Div", Numbers(), DrawDividedByOne, 2);
  for (const char* op : {"RealDiv", "DivNoNan"}) add(op, Floats(), DrawDividedByOne, 2);
  add("Mul", Numbers(), DrawTwoFactors, 4);
  add("Transpose", Anything(), DrawTransposeTwice, 12);
  add("Reshape", Anything(), DrawReshapeTwice, 6);
  add("Cast", AnyElement(), DrawCastTwice, 6);
  add("Neg", Numbers(), DrawTwice("Neg"), 2);
  add("LogicalNot", Bools(), DrawTwice("LogicalNot"), 2);
  add("Invert", AllIntegers(), DrawTwice("Invert"), 2);
  add("StopGradient", Anything(), DrawTwice("Identity"), 2);
  add("MatMul", Numbers(), DrawProductOfTranspose("transpose_a", "transpose_b", /*has_batches=*/false), 4);
  add("BatchMatMulV2", Numbers(), DrawProductOfTranspose("adj_x", "adj_y", /*has_batches=*/true), 14);
  for (const char* op : {"Relu", "Elu", "Tanh"}) add(op, Floats(), DrawDenseLayer, 3);
  add("Relu", Floats(), DrawConvolutionLayer, 3);
  for (const char* op : {"AddV2", "Sub", "Mul"}) add(op, Floats(), DrawFormula, 5);
  add("Relu", {DType::kFloat32, DType::kHalf, DType::kBfloat16}, DrawNormalized, 3);
}

}  // namespace weir::random_graphs
