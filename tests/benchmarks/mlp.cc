#include "tests/benchmarks/mlp.h"

#include <random>

#include "examples/fashion_mnist/model.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "tests/benchmarks/measure.h"

namespace weir::bench {

Mlp BuildMlp(GraphBuilder& g, int batch, bool with_global_step) {
  Mlp mlp;
  mlp.images = Placeholder(g, DType::kFloat32, {batch, 784});
  mlp.labels = Placeholder(g, DType::kInt32, {batch});
  const Output logits = examples::Mlp(g, mlp.images);
  mlp.loss = ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, logits, mlp.labels).loss);
  mlp.train =
      Must(GradientDescent(0.01).Minimize(g, mlp.loss, with_global_step ? GlobalStep(g) : ModelVariable()));
  mlp.init = InitializeVariables(g);
  return mlp;
}

Tensor RandomNumbers(const Shape& shape) {
  Tensor numbers(DType::kFloat32, shape);
  std::mt19937 random(1);
  for (float& number : numbers.flat<float>()) number = std::uniform_real_distribution<float>()(random);
  return numbers;
}

Tensor RandomLabels(int batch) {
  Tensor labels(DType::kInt32, Shape({batch}));
  std::mt19937 random(2);
  for (int32_t& label : labels.flat<int32_t>()) label = std::uniform_int_distribution<int>(0, 9)(random);
  return labels;
}

}  // namespace weir::bench
