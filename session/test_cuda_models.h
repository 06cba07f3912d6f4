// The models that tests of sessions on CUDA devices train: a multilayer perceptron and a small convolutional
// network, with batches for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/session.h"

namespace weir {

struct Mlp {
  Output x, labels, loss;
  Node* train = nullptr;
  std::vector<TensorRef> variables;
  std::vector<TargetRef> initializers;
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

// 12 features, a hidden layer of 16, 5 classes. The devices of the two layers.
inline Mlp BuildMlp(GraphBuilder& g, const std::string& first, const std::string& second,
                    const MakeOptimizer& make) {
  std::mt19937 random(3);
  const auto values = [&](const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    for (float& v : tensor.flat<float>()) v = static_cast<float>(random() % 1000) / 1000 - 0.5f;
    return tensor;
  };
  Mlp model;
  Output hidden;
  {
    auto scope = g.DeviceScope(first);
    model.x = Placeholder(g, DType::kFloat32, {-1, 12});
    const Output w = MakeVariable(g, "w1", values({12, 16})).value;
    const Output b = MakeVariable(g, "b1", values({16})).value;
    hidden = Relu(g, BiasAdd(g, MatMul(g, model.x, w), b));
  }
  auto scope = g.DeviceScope(second);
  model.labels = Placeholder(g, DType::kInt32, {-1});
  const Output w = MakeVariable(g, "w2", values({16, 5})).value;
  const Output b = MakeVariable(g, "b2", values({5})).value;
  const Output logits = BiasAdd(g, MatMul(g, hidden, w), b);
  const Output losses = SparseSoftmaxCrossEntropyWithLogits(g, logits, model.labels).loss;
  model.loss = Mean(g, losses, ConstIntegers(g, {0}));
  const std::unique_ptr<Optimizer> optimizer = make();
  model.train = optimizer->Minimize(g, model.loss).value();
  for (const VariableDef& variable : g.graph().variables()) {
    model.initializers.push_back(g.graph().FindNode(variable.initializer_name));
    model.variables.push_back(variable.snapshot_name);
  }
  return model;
}

// A batch of step `step`; the usual number of examples is no power of two.
inline Feeds Batch(const Mlp& model, int step, int64_t examples = 24) {
  std::mt19937 random(step);
  Tensor x(DType::kFloat32, Shape({examples, 12})), labels(DType::kInt32, Shape({examples}));
  for (float& v : x.flat<float>()) v = static_cast<float>(random() % 2000) / 1000 - 1;
  for (int32_t& label : labels.flat<int32_t>()) label = static_cast<int32_t>(random() % 5);
  return {{model.x, x}, {model.labels, labels}};
}

struct ConvNet {
  Output x, labels, loss;
  Node* train = nullptr;
  std::vector<TensorRef> variables;
  std::vector<TargetRef> initializers;
};

// The parts of ResNets and of the networks for MNIST: convolutions with a bias and with batch normalization,
// strides that are padded on one side only, both pools, a block with a shortcut, the mean of the pixels.
class ConvNetBuilder {
 public:
  explicit ConvNetBuilder(GraphBuilder& g) : g_(g) {}

  ConvNet Build(const std::string& device) {
    auto scope = g_.DeviceScope(device);
    ConvNet net;
    net.x = Placeholder(g_, DType::kFloat32, {-1, 12, 12, 3});
    net.labels = Placeholder(g_, DType::kInt32, {-1});
    Output y = Relu(g_, BiasAdd(g_, Convolution(net.x, 3, 8, 1), Weight({8})));
    y = layers::MaxPool2D(g_, y, 2, 2);
    const Output shortcut = Normalized(Convolution(y, 1, 16, 2));
    const Output hidden = Relu(g_, Normalized(Convolution(y, 3, 16, 2)));
    y = Relu(g_, AddV2(g_, Normalized(Convolution(hidden, 3, 16, 1)), shortcut));
    y = layers::AvgPool2D(g_, y, 2, 1);
    y = ReduceMean(g_, y, {1, 2});
    const Output logits = BiasAdd(g_, MatMul(g_, y, Weight({16, 5})), Weight({5}));
    const Output losses = SparseSoftmaxCrossEntropyWithLogits(g_, logits, net.labels).loss;
    net.loss = Mean(g_, losses, ConstIntegers(g_, {0}));
    std::vector<Node*> nodes = layers::UpdateOps(g_);
    nodes.push_back(Momentum(0.05, 0.9).Minimize(g_, net.loss).value());
    net.train = Group(g_, nodes);
    for (const VariableDef& variable : g_.graph().variables()) {
      net.initializers.push_back(g_.graph().FindNode(variable.initializer_name));
      net.variables.push_back(variable.snapshot_name);
    }
    return net;
  }

 private:
  Output Weight(const Shape& shape) {
    Tensor values(DType::kFloat32, shape);
    for (float& v : values.flat<float>()) v = static_cast<float>(random_() % 1000) / 1500 - 0.33f;
    return MakeVariable(g_, "weight", values).value;
  }
  Output Convolution(Output x, int64_t window, int64_t filters, int64_t stride) {
    return Conv2D(g_, x, Weight({window, window, x.shape().dim(3), filters}), {1, stride, stride, 1}, "SAME");
  }
  Output Normalized(Output x) { return layers::BatchNormalization(g_, x, true, {.momentum = 0.9}); }

  GraphBuilder& g_;
  std::mt19937 random_{3};
};

inline Feeds Batch(const ConvNet& net, int step, int64_t examples = 7) {
  std::mt19937 random(step);
  Tensor x(DType::kFloat32, Shape({examples, 12, 12, 3})), labels(DType::kInt32, Shape({examples}));
  for (float& v : x.flat<float>()) v = static_cast<float>(random() % 2000) / 1000 - 1;
  for (int32_t& label : labels.flat<int32_t>()) label = static_cast<int32_t>(random() % 5);
  return {{net.x, x}, {net.labels, labels}};
}

}  // namespace weir
