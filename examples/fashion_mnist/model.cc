#include "examples/fashion_mnist/model.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"

namespace weir::examples {

Output Mlp(GraphBuilder& g, Output images) {
  const Output hidden = layers::Dense(g, images, 300, Relu);
  return layers::Dense(g, layers::Dense(g, hidden, 100, Relu), 10);
}

Output Cnn(GraphBuilder& g, Output images, std::variant<bool, Output> is_training) {
  Output x = Reshape(g, images, ConstIntegers(g, {-1, 28, 28, 1}));
  for (int64_t filters : {16, 32}) {
    x = layers::Conv2D(g, x, filters, 5, Relu, {.padding = "SAME"});
    x = layers::MaxPool2D(g, x, 2, 2);
  }
  x = layers::Dense(g, layers::Flatten(g, x), 128, Relu);
  return layers::Dense(g, layers::Dropout(g, x, 0.4, is_training), 10);
}

Model BuildModel(GraphBuilder& g, const std::string& kind) {
  Model model;
  model.images = Placeholder(g, DType::kFloat32, {-1, 784}, {.name = "images"});
  model.is_training = PlaceholderWithDefault(g, Const(g, false), Shape(), {.name = "is_training"});
  Output logits;
  if (kind == "mlp") {
    logits = Mlp(g, model.images);
  } else if (kind == "cnn") {
    logits = Cnn(g, model.images, model.is_training);
  } else {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("--model is '", kind, "', must be mlp or cnn")));
    return model;
  }
  static_cast<Classification&>(model) = Classify(g, logits);
  return model;
}

}  // namespace weir::examples
