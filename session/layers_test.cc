// What layers and losses compute when a step runs them.
#include "ops/layers/layers.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "graph/gradients.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

class LayersTest : public testing::Test {
 protected:
  std::vector<float> Values(const Feeds& feeds, Output fetch, std::vector<Node*> targets = {}) {
    if (!session_) {
      EXPECT_TRUE(g_.ok()) << g_.status();
      session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    }
    const auto results =
        session_->Run(feeds, {fetch}, std::vector<TargetRef>(targets.begin(), targets.end()));
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    const auto flat = (*results)[0].flat<float>();
    return {flat.begin(), flat.end()};
  }

  std::unique_ptr<Runtime> runtime_ = Runtime::Create().value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  GraphBuilder g_{runtime_->ops()};
  std::unique_ptr<Session> session_;
};

using BatchNormalizationTest = LayersTest;

Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromSpan<float>(Shape({static_cast<int64_t>(values.size())}), values);
}

// Two channels of four elements: 1 2 3 6 (mean 3, squares 14) and 0 0 4 4.
Tensor Image() { return Tensor::FromSpan<float>(Shape({1, 2, 2, 2}), {{1, 0, 2, 0, 3, 4, 6, 4}}); }

TEST_F(BatchNormalizationTest, TrainingNormalizesByTheBatchAndMovesTheAverages) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 2, 2, 2});
  const Output y = layers::BatchNormalization(g_, x, true, {.momentum = 0.75, .epsilon = 0});
  const std::vector<ModelVariable> variables = AllVariables(g_);
  ASSERT_EQ(variables.size(), 4u);
  EXPECT_EQ(variables[0].name, "batch_normalization/gamma");
  EXPECT_EQ(variables[3].name, "batch_normalization/moving_variance");
  EXPECT_EQ(TrainableVariables(g_).size(), 2u);
  Node* const init = InitializeVariables(g_);
  Node* const update = Group(g_, layers::UpdateOps(g_));
  Values({}, Const(g_, 0.0f), {init});
  const std::vector<float> normalized = Values({{x, Image()}}, y, {update});
  const double deviation = std::sqrt(14.0 / 4);
  EXPECT_NEAR(normalized[0], -2 / deviation, 1e-6);
  EXPECT_NEAR(normalized[6], 3 / deviation, 1e-6);
  EXPECT_NEAR(normalized[1], -1, 1e-6);
  EXPECT_NEAR(normalized[7], 1, 1e-6);
  // The averages began at 0 and 1; that of the variance is of the unbiased estimate.
  const std::vector<float> means = Values({}, variables[2].value);
  EXPECT_NEAR(means[0], 0.25 * 3, 1e-6);
  EXPECT_NEAR(means[1], 0.25 * 2, 1e-6);
  EXPECT_NEAR(Values({}, variables[3].value)[0], 0.75 + 0.25 * 14 / 3, 1e-6);
  Values({{x, Image()}}, y, {update});
  EXPECT_NEAR(Values({}, variables[2].value)[0], 0.75 * 0.75 + 0.25 * 3, 1e-6);
}

TEST_F(BatchNormalizationTest, OtherwiseTheAveragesNormalizeAndStay) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 2, 2, 2});
  const Output y = layers::BatchNormalization(g_, x, false, {.epsilon = 3});
  EXPECT_TRUE(layers::UpdateOps(g_).empty());
  const std::vector<ModelVariable> variables = AllVariables(g_);
  const auto assign = [&](int i, std::vector<float> values) {
    return AssignVariableOp(g_, variables[i].handle, Const(g_, Floats(values)));
  };
  const std::vector<Node*> assignments = {assign(0, {2, 3}), assign(1, {10, 20}), assign(2, {1, 0}),
                                          assign(3, {1, 6})};
  Values({}, Const(g_, 0.0f), assignments);
  const std::vector<float> normalized = Values({{x, Image()}}, y);
  EXPECT_NEAR(normalized[2], 10 + 2 * (2 - 1) / 2.0, 1e-6);
  EXPECT_NEAR(normalized[5], 20 + 3 * 4 / 3.0, 1e-6);
}

TEST_F(BatchNormalizationTest, UnknownChannelsAreRefused) {
  layers::BatchNormalization(g_, Placeholder(g_, DType::kFloat32, {-1, 2, 2, -1}), true);
  EXPECT_TRUE(absl::StrContains(
      g_.status().message(),
      "BatchNormalization 'batch_normalization': x must be [batch,...] of rank 2 or more with known"))
      << g_.status();
}

using SigmoidCrossEntropyTest = LayersTest;

TEST_F(SigmoidCrossEntropyTest, IsRightForLargeLogitsAndAtZero) {
  const std::vector<float> logits = {0, 0, 2, -2, 1000, -1000, 1000};
  const std::vector<float> labels = {1, 0, 1, 0.25, 1, 0, 0};
  const Output x = Placeholder(g_, DType::kFloat32, {7}), z = Const(g_, Floats(labels));
  const Output loss = SigmoidCrossEntropyWithLogits(g_, x, z);
  const auto gradients = AddGradients(g_, {loss}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const std::vector<float> losses = Values({{x, Floats(logits)}}, loss);
  const std::vector<float> slopes = Values({{x, Floats(logits)}}, (*gradients)[0]);
  for (int i = 0; i < 4; ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    EXPECT_NEAR(losses[i], -labels[i] * std::log(p) - (1 - labels[i]) * std::log(1 - p), 1e-6) << i;
    EXPECT_NEAR(slopes[i], p - labels[i], 1e-6) << i;
  }
  EXPECT_EQ(losses[4], 0);
  EXPECT_EQ(losses[5], 0);
  EXPECT_EQ(losses[6], 1000);
  EXPECT_EQ(slopes[6], 1);
}

}  // namespace
}  // namespace weir
