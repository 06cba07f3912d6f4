// Activations, windows, cross entropies.
#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

Call DrawBiasAdd(Pool& pool, DType dtype) {
  const Operand value = pool.OfRankAtLeast(dtype, 2);
  if (value.rank() > 4) return std::nullopt;
  const bool channels_first = value.rank() > 2 && pool.random().Chance(20);
  const int64_t channels = value.value.dim(channels_first ? 1 : value.rank() - 1);
  return OpCall{{value.output, pool.OfShape(dtype, {channels}).output},
                {{"data_format", channels_first ? "NCHW" : "NHWC"}}};
}

Call DrawRows(Pool& pool, DType dtype) {
  const Operand logits = pool.OfRankAtLeast(dtype, 1);
  if (logits.value.size() == 0) return std::nullopt;
  return OpCall{{logits.output}};
}

// Each row of the labels sums to 1, exactly in every dtype: the gradient counts on it.
Call DrawCrossEntropy(Pool& pool, DType dtype) {
  const Operand logits = pool.OfRank(dtype, 2);
  if (logits.value.size() == 0) return std::nullopt;
  Array labels(logits.dims());
  for (int64_t row = 0; row < logits.value.dim(0); ++row) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      labels.at({row, pool.random().Below(logits.value.dim(1))}).number += 0.25;
    }
  }
  return OpCall{{logits.output, pool.Exactly(labels, dtype)}};
}

Call DrawSparseCrossEntropy(Pool& pool, DType dtype) {
  const Operand logits = pool.OfRank(dtype, 2);
  if (logits.value.size() == 0) return std::nullopt;
  const Operand labels = pool.OfShapeBetween(pool.random().Pick(Integers()), {logits.value.dim(0)}, 0,
                                             static_cast<double>(logits.value.dim(1) - 1));
  return OpCall{{logits.output, labels.output}};
}

Operand DrawImage(Pool& pool, DType dtype) {
  return pool.Draw(
      dtype, [](const Operand& operand) { return operand.rank() == 4 && operand.value.size() > 0; },
      [&] {
        Random& random = pool.random();
        return pool.Leaf(
            dtype, {random.Between(1, 2), random.Between(1, 5), random.Between(1, 5), random.Between(1, 3)});
      });
}

Call DrawConv2D(Pool& pool, DType dtype) {
  Random& random = pool.random();
  const Operand image = DrawImage(pool, dtype);
  const bool is_same = random.Chance(50);
  const auto window = [&](int axis) {
    return is_same ? random.Between(1, 3) : random.Between(1, std::min<int64_t>(3, image.value.dim(axis)));
  };
  const int64_t height = window(1), width = window(2);
  const Operand filter = pool.Draw(
      dtype,
      [&](const Operand& operand) {
        return operand.rank() == 4 && operand.value.dim(2) == image.value.dim(3) &&
               operand.value.dim(0) == height && operand.value.dim(1) == width && operand.value.size() > 0;
      },
      [&] {
        return pool.Leaf(dtype, {height, width, image.value.dim(3), random.Between(1, 3)}, -1, 1);
      });
  return OpCall{{image.output, filter.output},
                {{"strides", std::vector<int64_t>{1, random.Between(1, 2), random.Between(1, 2), 1}},
                 {"padding", is_same ? "SAME" : "VALID"}}};
}

Call DrawPool(Pool& pool, DType dtype) {
  Random& random = pool.random();
  const Operand image = DrawImage(pool, dtype);
  const bool is_same = random.Chance(50);
  const auto window = [&](int axis) {
    return is_same ? random.Between(1, 3) : random.Between(1, std::min<int64_t>(3, image.value.dim(axis)));
  };
  return OpCall{{image.output},
                {{"ksize", std::vector<int64_t>{1, window(1), window(2), 1}},
                 {"strides", std::vector<int64_t>{1, random.Between(1, 3), random.Between(1, 3), 1}},
                 {"padding", is_same ? "SAME" : "VALID"}}};
}

}  // namespace

void AddNnRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 4) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("Relu", Numbers(), OneOperand(), 5);
  add("ReluGrad", Floats(), TwoOfOneShape(), 2);
  add("BiasAdd", Floats(), DrawBiasAdd);
  add("Softmax", Floats(), DrawRows);
  add("LogSoftmax", Floats(), DrawRows);
  add("SoftmaxCrossEntropyWithLogits", Floats(), DrawCrossEntropy, 3);
  add("SparseSoftmaxCrossEntropyWithLogits", Floats(), DrawSparseCrossEntropy, 3);
  add("Conv2D", BigFloats(), DrawConv2D, 3);
  add("MaxPool", BigFloats(), DrawPool, 3);
  add("AvgPool", BigFloats(), DrawPool, 3);
}

std::vector<OpRow> AllRows() {
  std::vector<OpRow> rows;
  AddMathRows(&rows);
  AddArrayRows(&rows);
  AddNnRows(&rows);
  return rows;
}

}  // namespace weir::random_graphs
