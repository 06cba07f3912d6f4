// Models with variables, layers and optimizers: names, devices and order of what they add to the graph.
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "ops/layers/layers.h"
#include "ops/partitioned_variable.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/adam.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/loss_scale_optimizer.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"

namespace weir {
namespace {

// Variables to two ps tasks in turn, everything else to worker 0, as ReplicaDeviceSetter does.
DeviceSetter TwoParameterServers() {
  return [next = 0](const Node& node, const DeviceName& requested) mutable -> absl::StatusOr<DeviceName> {
    if (node.op_name() != "VarHandleOp")
      return DeviceName::Parse("/job:worker/task:0")->OverriddenBy(requested);
    return DeviceName::Parse("/job:ps/task:" + std::to_string(next++ % 2));
  };
}

struct Model {
  Output images, labels, logits, loss;
};

Model BuildMlp(GraphBuilder& g) {
  Model model;
  model.images = Placeholder(g, DType::kFloat32, {-1, 784}, {.name = "images"});
  model.labels = Placeholder(g, DType::kInt32, {-1}, {.name = "labels"});
  const Output hidden = layers::Dense(g, model.images, 300, Relu);
  model.logits = layers::Dense(g, hidden, 10);
  model.loss = ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, model.logits, model.labels).loss);
  return model;
}

std::vector<std::string> VariableNames(const GraphBuilder& g) {
  std::vector<std::string> names;
  for (const VariableDef& variable : g.graph().variables()) names.push_back(variable.variable_name);
  return names;
}

std::string DeviceOf(const GraphBuilder& g, const std::string& node) {
  const Node* const found = g.graph().FindNode(node);
  return found == nullptr ? "no node " + node : found->requested_device().ToString();
}

TEST(VariableTest, NodesAreNamedLikeTensorFlows) {
  GraphBuilder g(StandardOps());
  const auto scope = g.NameScope("dense");
  const ModelVariable w =
      MakeVariable(g, "kernel", DType::kFloat32, {3, 2}, initializers::TruncatedNormal(0.1, 7));
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(w.handle.name(), "dense/kernel:0");
  EXPECT_EQ(w.value.name(), "dense/kernel/Read/ReadVariableOp:0");
  EXPECT_EQ(w.initializer->name(), "dense/kernel/Assign");
  EXPECT_TRUE(absl::StartsWith(w.initial_value.name(), "dense/kernel/Initializer/"))
      << w.initial_value.name();
  EXPECT_EQ(w.handle.node->attr<std::string>("shared_name"), "dense/kernel");
  EXPECT_EQ(w.value.shape().ToString(), "[3,2]");
  const ModelVariable again = MakeVariable(g, "kernel", Tensor::Vector<float>({1, 2}));
  EXPECT_EQ(again.name, "dense/kernel_1");
  EXPECT_EQ(again.value.name(), "dense/kernel_1/Read/ReadVariableOp:0");
  EXPECT_EQ(VariableNames(g), (std::vector<std::string>{"dense/kernel", "dense/kernel_1"}));
}

TEST(VariableTest, AllNodesStandOnTheVariablesDevice) {
  GraphBuilder g(StandardOps(), TwoParameterServers());
  MakeVariable(g, "a", DType::kFloat32, {2000, 2}, initializers::GlorotUniform());
  MakeVariable(g, "b", DType::kFloat32, {2000}, initializers::Zeros());
  ASSERT_TRUE(g.ok()) << g.status();
  for (const auto& node : g.graph().nodes()) {
    EXPECT_EQ(node->requested_device().ToString(),
              node->name()[0] == 'a' ? "/job:ps/task:0" : "/job:ps/task:1")
        << node->name();
  }
}

TEST(VariableTest, InitialValueOfUnknownShapeIsRefused) {
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Placeholder(g, DType::kFloat32, {-1, 2}));
  EXPECT_FALSE(w.handle);
  EXPECT_TRUE(absl::StrContains(g.status().message(), "variable 'w': the shape of its initial value"))
      << g.status();
  EXPECT_TRUE(absl::StrContains(g.status().message(), "[?,2]")) << g.status();
}

TEST(VariableTest, GlobalStepIsMadeOnce) {
  GraphBuilder g(StandardOps());
  ModelVariable first;
  {
    const auto scope = g.NameScope("train");
    first = GlobalStep(g);
  }
  EXPECT_EQ(first.name, "global_step");
  EXPECT_EQ(first.dtype, DType::kInt64);
  EXPECT_EQ(GlobalStep(g).handle, first.handle);
  EXPECT_EQ(g.graph().variables().size(), 1u);
  EXPECT_EQ(g.graph().collections().at("global_step"), std::vector<std::string>{"global_step"});
  EXPECT_TRUE(TrainableVariables(g).empty());
}

TEST(VariableTest, InitializationAndReport) {
  GraphBuilder g(StandardOps(), TwoParameterServers());
  BuildMlp(g);
  Node* const init = InitializeVariables(g);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(init->name(), "init");
  // One edge per device: the initializers of each are gathered there.
  EXPECT_EQ(init->control_inputs().size(), 2u);
  const UninitializedReport report = ReportUninitialized(g);
  EXPECT_EQ(report.names, VariableNames(g));
  EXPECT_EQ(report.is_uninitialized.shape().ToString(), "[4]");
}

// 0.999 is 1 in bfloat16. Steps of other workers overlap with this one: what they have multiplied counts.
TEST(AdamTest, PowersAreFloatsAndAreReadAfterTheUpdates) {
  GraphBuilder g(StandardOps());
  const ModelVariable a = MakeVariable(g, "a", DType::kBfloat16, {2}, initializers::Zeros());
  const ModelVariable b = MakeVariable(g, "b", DType::kFloat32, {2}, initializers::Zeros());
  const Output loss = AddV2(g, ReduceSum(g, Cast(g, a.value, DType::kFloat32)), ReduceSum(g, b.value));
  ASSERT_TRUE(Adam(0.1).Minimize(g, loss).ok()) << g.status();
  for (const char* name : {"beta1_power", "beta2_power"}) {
    EXPECT_EQ(g.graph().FindNode(name)->attr<DType>("dtype"), DType::kFloat32) << name;
  }
  int num_reads = 0;
  for (const auto& node : g.graph().nodes()) {
    const bool is_in_finish = absl::StartsWith(node->name(), "Adam/finish/");
    if (!is_in_finish || node->op_name() != "ReadVariableOp") continue;
    ++num_reads;
    ASSERT_EQ(node->control_inputs().size(), 1u) << node->name();
    EXPECT_EQ(node->control_inputs()[0]->name(), "Adam/finish/updated");
  }
  EXPECT_EQ(num_reads, 2);
}

// Two losses that are minimized in turn share what the optimizer remembers of a variable.
TEST(SharedSlotsTest, ASecondMinimizeHasTheSlotsOfTheFirst) {
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", DType::kFloat32, {2}, initializers::Zeros());
  Adam adam(0.1);
  ASSERT_TRUE(adam.Minimize(g, ReduceSum(g, w.value)).ok()) << g.status();
  const std::vector<std::string> names = VariableNames(g);
  EXPECT_EQ(names.size(), 5u);
  ASSERT_TRUE(adam.Minimize(g, ReduceSum(g, Square(g, w.value))).ok()) << g.status();
  EXPECT_EQ(VariableNames(g), names);
  // Of another graph they are others.
  GraphBuilder other(StandardOps());
  const ModelVariable v = MakeVariable(other, "w", DType::kFloat32, {2}, initializers::Zeros());
  ASSERT_TRUE(adam.Minimize(other, ReduceSum(other, v.value)).ok()) << other.status();
  EXPECT_EQ(VariableNames(other), names);
}

TEST(SummariesTest, ASecondTagOfTheNameGetsANumber) {
  GraphBuilder g(StandardOps());
  const auto tag = [&] {
    const Output summary = AddScalarSummary(g, "loss", Const(g, 1.0f));
    return summary.node->input(0).node->attr<Tensor>("value").scalar<std::string>();
  };
  EXPECT_EQ(tag(), "loss");
  EXPECT_EQ(tag(), "loss_1");
  EXPECT_EQ(tag(), "loss_2");
  const auto scope = g.NameScope("tower");
  EXPECT_EQ(tag(), "tower/loss");
}

TEST(RandomSeedTest, InitializersFollowTheGraphsSeed) {
  GraphBuilder g(StandardOps());
  EXPECT_EQ(g.NextRandomSeeds().seed, 0);
  EXPECT_EQ(g.NextRandomSeeds(5).seed, 87654321);
  g.set_random_seed(7);
  for (int i = 0; i < 2; ++i) {
    const auto seeds = g.NextRandomSeeds();
    EXPECT_EQ(seeds.seed, 7);
    EXPECT_EQ(seeds.seed2, i);
  }
  EXPECT_EQ(g.NextRandomSeeds(5).seed2, 5);
}

TEST(LayersTest, MlpHasTensorFlowsNamesAndShapes) {
  GraphBuilder g(StandardOps());
  const Model model = BuildMlp(g);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(VariableNames(g),
            (std::vector<std::string>{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}));
  EXPECT_EQ(model.logits.shape().ToString(), "[?,10]");
  EXPECT_EQ(model.loss.shape().ToString(), "[]");
  EXPECT_NE(g.graph().FindNode("dense/Relu"), nullptr);
  EXPECT_EQ(g.graph().FindNode("dense_1/Relu"), nullptr);
}

TEST(LayersTest, ConvolutionalNetwork) {
  GraphBuilder g(StandardOps());
  const Output images = Placeholder(g, DType::kFloat32, {-1, 28, 28, 1});
  const Output training = Placeholder(g, DType::kBool, Shape());
  Output x = layers::Conv2D(g, images, 32, 5, Relu, {.padding = "SAME"});
  EXPECT_EQ(x.shape().ToString(), "[?,28,28,32]");
  x = layers::MaxPool2D(g, x, 2, 2);
  EXPECT_EQ(x.shape().ToString(), "[?,14,14,32]");
  x = layers::Conv2D(g, x, 64, {3, 5}, nullptr, {.strides = 2});
  EXPECT_EQ(x.shape().ToString(), "[?,6,5,64]");
  x = layers::AvgPool2D(g, x, 2, 2, {.padding = "SAME"});
  x = layers::Flatten(g, x);
  EXPECT_EQ(x.shape().ToString(), "[?,576]");
  x = layers::Dropout(g, x, 0.4, training);
  EXPECT_EQ(x.shape().ToString(), "[?,576]");
  const Output loss = ReduceMean(g, Square(g, layers::Dense(g, x, 10)));
  const auto train = GradientDescent(0.1).Minimize(g, loss);
  ASSERT_TRUE(train.ok()) << train.status();
  const std::vector<std::string> names = VariableNames(g);
  EXPECT_EQ(names, (std::vector<std::string>{"conv2d/kernel", "conv2d/bias", "conv2d_1/kernel",
                                             "conv2d_1/bias", "dense/kernel", "dense/bias"}));
}

TEST(LayersTest, DropoutWithoutTrainingOnlyPassesOn) {
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1, 3});
  EXPECT_EQ(layers::Dropout(g, x, 0.5, false).node->op_name(), "Identity");
  EXPECT_EQ(layers::Dropout(g, x, 0.5, true).node->op_name(), "Mul");
  layers::Dropout(g, x, 1.0, true);
  EXPECT_TRUE(absl::StrContains(g.status().message(), "Dropout 'dropout_2': rate must be in [0, 1), is 1"))
      << g.status();
}

TEST(LayersTest, ErrorsShowTheShapesAndTheLine) {
  GraphBuilder g(StandardOps());
  layers::Dense(g, Placeholder(g, DType::kFloat32, {-1, 28, -1}), 10);
  EXPECT_TRUE(absl::StrContains(g.status().message(), "Dense 'dense': x must be [batch,...,features]"))
      << g.status();
  EXPECT_TRUE(absl::StrContains(g.status().message(), "x is [?,28,?], units is 10")) << g.status();
  EXPECT_TRUE(absl::StrContains(g.status().message(), "training_test.cc:")) << g.status();
}

class OptimizerTest : public testing::Test {
 protected:
  Node* Minimize(Optimizer& optimizer) {
    model_ = BuildMlp(g_);
    const auto train = optimizer.Minimize(g_, model_.loss, GlobalStep(g_));
    EXPECT_TRUE(train.ok()) << train.status();
    return train.ok() ? *train : nullptr;
  }
  const Node* Update(const std::string& variable, const std::string& name, const std::string& op) {
    return g_.graph().FindNode(name + "/update_" + variable + "/" + op);
  }

  GraphBuilder g_{StandardOps(), TwoParameterServers()};
  Model model_;
};

// Whether a run of `node` runs `before` first.
bool RunsAfter(const Node* node, const Node* before) {
  if (node == before) return true;
  for (const Output& input : node->inputs()) {
    if (RunsAfter(input.node, before)) return true;
  }
  for (const Node* input : node->control_inputs()) {
    if (RunsAfter(input, before)) return true;
  }
  return false;
}

TEST_F(OptimizerTest, GradientDescentUpdatesThenCounts) {
  GradientDescent optimizer(0.1);
  Node* const train = Minimize(optimizer);
  ASSERT_NE(train, nullptr);
  EXPECT_EQ(train->name(), "GradientDescent");
  EXPECT_EQ(train->op_name(), "AssignAddVariableOp");
  for (const char* variable : {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}) {
    const Node* const update = Update(variable, "GradientDescent", "ResourceApplyGradientDescent");
    ASSERT_NE(update, nullptr) << variable;
    EXPECT_TRUE(RunsAfter(train, update)) << variable;
    EXPECT_EQ(update->requested_device(), g_.graph().FindNode(variable)->requested_device());
  }
  EXPECT_EQ(g_.graph().collections().at("train_op"), std::vector<std::string>{"GradientDescent"});
}

TEST_F(OptimizerTest, AdamMakesTensorFlowsVariables) {
  Adam optimizer(0.001);
  ASSERT_NE(Minimize(optimizer), nullptr);
  const std::vector<std::string> names = VariableNames(g_);
  const std::set<std::string> expected = {"dense/kernel",
                                          "dense/bias",
                                          "dense_1/kernel",
                                          "dense_1/bias",
                                          "dense/kernel/Adam",
                                          "dense/bias/Adam",
                                          "dense_1/kernel/Adam",
                                          "dense_1/bias/Adam",
                                          "dense/kernel/Adam_1",
                                          "dense/bias/Adam_1",
                                          "dense_1/kernel/Adam_1",
                                          "dense_1/bias/Adam_1",
                                          "beta1_power",
                                          "beta2_power",
                                          "global_step"};
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected);
  EXPECT_EQ(names.size(), expected.size());
  EXPECT_EQ(TrainableVariables(g_).size(), 4u);
}

TEST_F(OptimizerTest, OnlyGradientsAndValuesCrossBetweenTasks) {
  Adam optimizer(0.001);
  Node* const train = Minimize(optimizer);
  ASSERT_NE(train, nullptr);
  for (const std::string variable : {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}) {
    const Node* const update = Update(variable, "Adam", "ResourceApplyAdam");
    ASSERT_NE(update, nullptr) << variable;
    const std::string device = DeviceOf(g_, variable);
    EXPECT_EQ(DeviceOf(g_, variable + "/Adam"), device);
    EXPECT_EQ(DeviceOf(g_, variable + "/Adam_1/Assign"), device);
    for (int i = 0; i < update->num_inputs(); ++i) {
      const std::string& argument = update->op().inputs()[i].name;
      const Node& source = *update->input(i).node;
      const bool may_cross = argument == "grad" || argument == "beta1_power" || argument == "beta2_power";
      EXPECT_TRUE(may_cross || source.requested_device().ToString() == device) << variable << " " << argument;
    }
    EXPECT_EQ(update->input(9).node->requested_device().ToString(), "/job:worker/task:0");
  }
  // From the updates to the counted step, nothing goes back to the worker.
  for (const auto& node : g_.graph().nodes()) {
    if (node->id() > Update("dense/kernel", "Adam", "ResourceApplyAdam")->id() && node->op_name() == "NoOp") {
      EXPECT_EQ(node->requested_device().job, "ps") << node->name();
    }
  }
  EXPECT_EQ(train->requested_device().ToString(), DeviceOf(g_, "global_step"));
}

TEST_F(OptimizerTest, AdamPowersAreMultipliedAfterAllUpdates) {
  Adam optimizer(0.001);
  Node* const train = Minimize(optimizer);
  ASSERT_NE(train, nullptr);
  const Node* const power = g_.graph().FindNode("Adam/finish/AssignVariableOp");
  ASSERT_NE(power, nullptr);
  EXPECT_EQ(power->input(0).node->name(), "beta1_power");
  EXPECT_TRUE(RunsAfter(power, Update("dense_1/kernel", "Adam", "ResourceApplyAdam")));
  EXPECT_TRUE(RunsAfter(train, power));
}

TEST_F(OptimizerTest, MomentumSlots) {
  Momentum optimizer(0.1, 0.9, {.use_nesterov = true});
  ASSERT_NE(Minimize(optimizer), nullptr);
  const Node* const update = Update("dense/bias", "Momentum", "ResourceApplyMomentum");
  ASSERT_NE(update, nullptr);
  EXPECT_TRUE(update->attr<bool>("use_nesterov"));
  EXPECT_EQ(update->input(1).node->name(), "dense/bias/Momentum");
}

TEST_F(OptimizerTest, WithoutGlobalStepTheTrainOpOnlyGathers) {
  model_ = BuildMlp(g_);
  const auto train = GradientDescent(0.1).Minimize(g_, model_.loss);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->op_name(), "NoOp");
  EXPECT_EQ((*train)->name(), "GradientDescent");
}

TEST_F(OptimizerTest, GradientsMayBeChangedInBetween) {
  model_ = BuildMlp(g_);
  GradientDescent optimizer(0.1);
  auto gradients = optimizer.ComputeGradients(g_, model_.loss);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (auto& [gradient, variable] : *gradients) {
    gradient = Mul(g_, Densify(g_, gradient), Const(g_, 0.5f));
  }
  EXPECT_TRUE(optimizer.ApplyGradients(g_, *gradients).ok());
  (*gradients)[0].gradient = (*gradients)[1].gradient;
  const auto wrong = optimizer.ApplyGradients(g_, *gradients);
  EXPECT_TRUE(absl::StrContains(wrong.status().message(),
                                "variable 'dense/kernel' is float[784,300], its gradient is float[300]"))
      << wrong.status();
}

// Names of the variables that have an update op of gradient descent.
std::set<std::string> Updated(const GraphBuilder& g) {
  std::set<std::string> names;
  for (const auto& node : g.graph().nodes()) {
    if (node->op_name() == "ResourceApplyGradientDescent") names.insert(node->input(0).node->name());
  }
  return names;
}

TEST_F(OptimizerTest, TrainsTheVariablesOfAPart) {
  model_ = BuildMlp(g_);
  const auto train = GradientDescent(0.1).Minimize(g_, model_.loss, {}, {.only = NamedBelow("dense")});
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(Updated(g_), (std::set<std::string>{"dense/kernel", "dense/bias"}));
}

TEST_F(OptimizerTest, TrainsTheVariablesOfAList) {
  model_ = BuildMlp(g_);
  const std::vector<ModelVariable> variables = TrainableVariables(g_);
  const auto train =
      GradientDescent(0.1).Minimize(g_, model_.loss, {}, {.variables = std::vector{variables[3]}});
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(Updated(g_), std::set<std::string>{"dense_1/bias"});
}

TEST_F(OptimizerTest, AListMayHaveVariablesThatAreNotTrainable) {
  const ModelVariable fixed = MakeVariable(g_, "fixed", Tensor::Scalar(1.0f), {.trainable = false});
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Scalar(1.0f));
  const Output loss = Mul(g_, fixed.value, w.value);
  ASSERT_TRUE(GradientDescent(0.1).Minimize(g_, loss).ok());
  EXPECT_EQ(Updated(g_), std::set<std::string>{"w"});
  ASSERT_TRUE(GradientDescent(0.1).Minimize(g_, loss, {}, {.variables = std::vector{fixed}}).ok());
  EXPECT_EQ(Updated(g_), (std::set<std::string>{"fixed", "w"}));
}

class ChoiceTest : public testing::Test {
 protected:
  void ExpectRefused(const GradientOptions& options, const std::string& words) {
    const auto gradients = GradientDescent(0.1).ComputeGradients(g_, Square(g_, w_.value), options);
    EXPECT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(gradients.status().message(), words)) << gradients.status();
    EXPECT_TRUE(absl::StrContains(gradients.status().message(), "training_test.cc:")) << gradients.status();
  }

  GraphBuilder g_{StandardOps()};
  ModelVariable w_ = MakeVariable(g_, "w", Tensor::Scalar(1.0f));
};

TEST_F(ChoiceTest, EmptyListIsRefused) {
  ExpectRefused({.variables = std::vector<ModelVariable>()},
                "GradientDescent: the list of variables to train is empty");
}

TEST_F(ChoiceTest, AVariableTwiceIsRefused) {
  ExpectRefused({.variables = std::vector{w_, w_}}, "the variable 'w' is listed twice");
}

TEST_F(ChoiceTest, AVariableOfAnotherGraphIsRefused) {
  GraphBuilder other(StandardOps());
  ExpectRefused({.variables = std::vector{MakeVariable(other, "v", Tensor::Scalar(1.0f))}},
                "the variable 'v' is not in this graph");
}

TEST_F(ChoiceTest, AConditionThatNoVariableMeetsIsRefused) {
  MakeVariable(g_, "w2", Tensor::Scalar(1.0f));
  ExpectRefused({.only = NamedBelow("head")}, "`only` is true for none of the variables 'w', 'w2'");
}

TEST_F(ChoiceTest, RowsNeedIndices) {
  const ModelVariable table =
      MakeVariable(g_, "table", DType::kFloat32, Shape({4, 2}), initializers::Zeros());
  const Output values = Placeholder(g_, DType::kFloat32, {-1, 2});
  const auto error = [&](const IndexedSlices& rows) {
    return std::string(GradientDescent(0.1).ApplyGradients(g_, {{rows, table}}).status().message());
  };
  EXPECT_TRUE(absl::StrContains(error({.values = values}),
                                "the rows of the gradient of variable 'table' have no indices"))
      << g_.status();
}

TEST_F(ChoiceTest, NoOptimizerIsAnError) {
  LossScaleOptimizer optimizer(std::unique_ptr<Optimizer>(), FixedLossScale{2});
  const auto train = optimizer.Minimize(g_, w_.value);
  EXPECT_TRUE(absl::StrContains(train.status().message(), "LossScaleOptimizer: the optimizer is null"))
      << train.status();
}

TEST(VariableTest, WhatIsMissingIsAnError) {
  GraphBuilder constant(StandardOps());
  EXPECT_FALSE(Const(constant, Tensor(), {.name = "x"}));
  EXPECT_TRUE(absl::StrContains(constant.status().message(), "Const 'x': the value is no tensor"))
      << constant.status();
  GraphBuilder parts(StandardOps());
  MakePartitionedVariable(parts, "t", DType::kFloat32, Shape({4, 2}), initializers::Zeros(), nullptr);
  EXPECT_TRUE(
      absl::StrContains(parts.status().message(), "partitioned variable 't': the partitioner is null"))
      << parts.status();
}

TEST_F(OptimizerTest, NoTrainableVariablesIsAnError) {
  const auto train = GradientDescent(0.1).Minimize(g_, Placeholder(g_, DType::kFloat32, Shape()));
  EXPECT_TRUE(absl::StrContains(train.status().message(), "there are no trainable variables"))
      << train.status();
}

TEST_F(OptimizerTest, LossThatDependsOnNothingIsAnError) {
  MakeVariable(g_, "w", Tensor::Scalar(1.0f));
  const auto train = GradientDescent(0.1).Minimize(g_, Placeholder(g_, DType::kFloat32, Shape()));
  EXPECT_EQ(train.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(train.status().message(), "the loss depends on none of the variables 'w'"))
      << train.status();
}

TEST_F(OptimizerTest, ErrorsOfTheModelComeOutAtMinimize) {
  MatMul(g_, Placeholder(g_, DType::kFloat32, {32, 784}), Placeholder(g_, DType::kFloat32, {785, 100}));
  model_ = BuildMlp(g_);
  const auto train = Adam().Minimize(g_, model_.loss, GlobalStep(g_));
  EXPECT_TRUE(absl::StrContains(train.status().message(), "a is [32,784], b is [785,100]")) << train.status();
}

}  // namespace
}  // namespace weir
