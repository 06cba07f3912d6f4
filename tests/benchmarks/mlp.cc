#include "tests/benchmarks/mlp.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "tests/benchmarks/measure.h"

namespace weir::bench {
namespace {

Tensor RandomWeights(int rows, int columns, std::mt19937& random) {
  Tensor weights(DType::kFloat32, Shape({rows, columns}));
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(rows)));
  for (float& weight : weights.flat<float>()) weight = normal(random);
  return weights;
}

}  // namespace

Mlp BuildMlp(GraphBuilder& g, int batch, bool with_global_step) {
  Mlp mlp;
  mlp.images = Placeholder(g, DType::kFloat32, {batch, 784});
  mlp.labels = Placeholder(g, DType::kInt32, {batch});
  std::mt19937 random(0);
  const int sizes[] = {784, 300, 100, 10};
  Output hidden = mlp.images;
  for (int i = 0; i < 3; ++i) {
    const ModelVariable weights =
        MakeVariable(g, absl::StrCat("w", i), RandomWeights(sizes[i], sizes[i + 1], random));
    Tensor zeros(DType::kFloat32, Shape({sizes[i + 1]}));
    for (float& zero : zeros.flat<float>()) zero = 0;
    const ModelVariable bias = MakeVariable(g, absl::StrCat("b", i), zeros);
    hidden = BiasAdd(g, MatMul(g, hidden, weights.value), bias.value);
    if (i < 2) hidden = Relu(g, hidden);
  }
  mlp.loss = ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, hidden, mlp.labels).loss);
  mlp.train =
      Must(GradientDescent(0.01).Minimize(g, mlp.loss, with_global_step ? GlobalStep(g) : ModelVariable()));
  mlp.init = InitializeVariables(g);
  return mlp;
}

Tensor RandomImages(int batch) {
  Tensor images(DType::kFloat32, Shape({batch, 784}));
  std::mt19937 random(1);
  for (float& pixel : images.flat<float>()) pixel = std::uniform_real_distribution<float>()(random);
  return images;
}

Tensor RandomLabels(int batch) {
  Tensor labels(DType::kInt32, Shape({batch}));
  std::mt19937 random(2);
  for (int32_t& label : labels.flat<int32_t>()) label = std::uniform_int_distribution<int>(0, 9)(random);
  return labels;
}

}  // namespace weir::bench
