// Training with a scaled loss, step by step.
#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/embedding.h"
#include "ops/training/adam.h"
#include "ops/training/loss_scale_optimizer.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

class LossScaleTest : public RecordedModelTest {
 protected:
  // A variable, its momentum, the counters and the scale after each step of the recorded ones.
  void ExpectRecordedSteps(const std::string& name, const LossScale& scale) {
    const Output factor = Placeholder(g_, DType::kFloat32, Shape());
    const ModelVariable w = MakeVariable(g_, "w", Pattern({2, 3}, 1));
    const Output squares = ReduceSum(g_, Mul(g_, Mul(g_, w.value, w.value), factor));
    LossScaleOptimizer optimizer(Momentum(0.125, 0.5), scale);
    const auto train = optimizer.Minimize(g_, RealDiv(g_, squares, Const(g_, 8.0f)), GlobalStep(g_));
    ASSERT_TRUE(train.ok()) << train.status();
    EXPECT_EQ(g_.graph().collections().at("train_op"), std::vector<std::string>{(*train)->name()});
    Initialize();
    std::vector<std::string> names;
    for (const ModelVariable& variable : AllVariables(g_)) names.push_back(variable.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, RecordedStrings(absl::StrCat("loss_scale/", name, "/variables")));
    const Tensor factors = Recorded("loss_scale/factors");
    for (int64_t i = 0; i < factors.num_elements(); ++i) {
      Run({{factor, Tensor::Scalar(factors.flat<float>()[i])}}, {}, {TargetRef(*train)});
      for (const ModelVariable& variable : AllVariables(g_)) {
        ExpectRecorded(absl::StrCat("loss_scale/", name, "/", i, "/", variable.name), variable.value);
      }
    }
  }
};

TEST_F(LossScaleTest, Dynamic) {
  ExpectRecordedSteps("dynamic",
                      DynamicLossScale{.initial_loss_scale = 4, .increment_period = 2, .multiplier = 4});
}

TEST_F(LossScaleTest, Fixed) { ExpectRecordedSteps("fixed", FixedLossScale{8}); }

TEST_F(LossScaleTest, ANaNInARowSkipsTheStepOfAllVariables) {
  const Output factor = Placeholder(g_, DType::kFloat32, Shape());
  const ModelVariable table = MakeVariable(g_, "table", Pattern({4, 2}, 1));
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Vector<float>({1, 2}));
  const Output row = EmbeddingLookup(g_, table, ConstIntegers(g_, {2}));
  const Output loss = AddV2(g_, ReduceSum(g_, Mul(g_, row, factor)), ReduceSum(g_, Square(g_, w.value)));
  LossScaleOptimizer optimizer(Adam(0.1), DynamicLossScale());
  const auto train = optimizer.Minimize(g_, loss);
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Run({{factor, Tensor::Scalar(nan)}}, {}, {TargetRef(*train)});
  ExpectNear(Pattern({4, 2}, 1), Run(table.value), "table");
  ExpectNear(Tensor::Vector<float>({1, 2}), Run(w.value), "w");
  EXPECT_EQ(Run(optimizer.loss_scale()).scalar<float>(), 16384);
  for (const ModelVariable& variable : AllVariables(g_)) {
    if (variable.name == "w/Adam") {
      ExpectNear(Tensor::Vector<float>({0, 0}), Run(variable.value), "w/Adam");
    }
    if (variable.name == "beta1_power") {
      EXPECT_FLOAT_EQ(Run(variable.value).scalar<float>(), 0.9f);
    }
  }
  Run({{factor, Tensor::Scalar(1.0f)}}, {}, {TargetRef(*train)});
  EXPECT_LT(Run(w.value).flat<float>()[0], 0.95f);
}

// The decision to skip reaches variables of another device.
TEST_F(LossScaleTest, SkipsStepsOfVariablesElsewhere) {
  const Output factor = Placeholder(g_, DType::kFloat32, Shape());
  ModelVariable far;
  {
    const auto elsewhere = g_.DeviceScope("/cpu:1");
    far = MakeVariable(g_, "far", Tensor::Scalar(1.0f));
  }
  const ModelVariable near = MakeVariable(g_, "near", Tensor::Scalar(1.0f));
  const Output loss = Mul(g_, AddV2(g_, far.value, near.value), factor);
  const auto train =
      LossScaleOptimizer(Momentum(1.0, 0.5), DynamicLossScale()).Minimize(g_, loss, GlobalStep(g_));
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  const float infinity = std::numeric_limits<float>::infinity();
  Run({{factor, Tensor::Scalar(infinity)}}, {}, {TargetRef(*train)});
  EXPECT_EQ(Run(far.value).scalar<float>(), 1);
  EXPECT_EQ(Run(near.value).scalar<float>(), 1);
  Run({{factor, Tensor::Scalar(0.25f)}}, {}, {TargetRef(*train)});
  EXPECT_EQ(Run(far.value).scalar<float>(), 0.75f);
  EXPECT_EQ(Run(near.value).scalar<float>(), 0.75f);
  EXPECT_EQ(Run(GlobalStep(g_).value).scalar<int64_t>(), 1);
}

TEST_F(LossScaleTest, ScalesOutOfRangeAreRefused) {
  const auto refused = [&](const LossScale& scale) {
    GraphBuilder other(StandardOps());
    const ModelVariable v = MakeVariable(other, "v", Tensor::Scalar(1.0f));
    return std::string(
        LossScaleOptimizer(Adam(), scale).Minimize(other, Square(other, v.value)).status().message());
  };
  EXPECT_TRUE(absl::StrContains(refused(FixedLossScale{0.5}),
                                "the loss scale must be at least 1 and finite, is 0.5"));
  EXPECT_TRUE(absl::StrContains(refused(DynamicLossScale{.increment_period = 0}),
                                "LossScaleOptimizer: increment_period must be at least 1, is 0"));
  EXPECT_TRUE(absl::StrContains(refused(DynamicLossScale{.multiplier = 1}),
                                "multiplier must be above 1 and finite, is 1"));
}

}  // namespace
}  // namespace weir
