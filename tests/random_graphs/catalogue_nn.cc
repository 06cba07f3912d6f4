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

Call DrawBiasAddGrad(Pool& pool, DType dtype) {
  const Operand value = pool.OfRankAtLeast(dtype, 2);
  if (value.rank() > 4) return std::nullopt;
  const bool channels_first = value.rank() > 2 && pool.random().Chance(20);
  return OpCall{{value.output}, {{"data_format", channels_first ? "NCHW" : "NHWC"}}};
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

}  // namespace

void AddNnRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 4) {
    rows->push_back({op, dtypes, draw, weight});
  };
  add("Relu", Numbers(), OneOperand(), 5);
  add("ReluGrad", Floats(), TwoOfOneShape(), 2);
  add("Relu6", Numbers(), OneOperandBetween(-3, 9), 2);
  for (const char* op : {"Elu", "Selu", "Softplus", "Softsign"}) add(op, Floats(), OneOperand(), 2);
  for (const char* op : {"Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"}) {
    add(op, Floats(), TwoOfOneShape(), 1);
  }
  add("LeakyRelu", Floats(), OneOperand({{"alpha", 0.25f}}), 2);
  add("LeakyReluGrad", Floats(), TwoOfOneShape(), 1);
  add("BiasAddGrad", Numbers(), DrawBiasAddGrad, 1);
  add("BiasAdd", Floats(), DrawBiasAdd);
  add("Softmax", Floats(), DrawRows);
  add("LogSoftmax", Floats(), DrawRows);
  add("SoftmaxCrossEntropyWithLogits", Floats(), DrawCrossEntropy, 3);
  add("SparseSoftmaxCrossEntropyWithLogits", Floats(), DrawSparseCrossEntropy, 3);
}

std::vector<OpRow> AllRows() {
  std::vector<OpRow> rows;
  AddMathRows(&rows);
  AddArrayRows(&rows);
  AddIndexRows(&rows);
  AddLayoutRows(&rows);
  AddMatrixRows(&rows);
  AddSegmentRows(&rows);
  AddNnRows(&rows);
  AddImageRows(&rows);
  AddRewriteRows(&rows);
  return rows;
}

}  // namespace weir::random_graphs
