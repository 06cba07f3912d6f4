// Moving averages, step by step.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "ops/training/exponential_moving_average.h"
#include "ops/variable.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

class AverageTest : public RecordedModelTest {
 protected:
  // The averages of a variable and of a tensor over four steps in which both change.
  void ExpectRecordedAverages(const std::string& name, bool zero_debias, bool count) {
    const Output fed = Placeholder(g_, DType::kFloat32, {2, 3});
    const ModelVariable w = MakeVariable(g_, "w", Pattern({2, 3}, 1));
    const ModelVariable step = GlobalStep(g_);
    Output tensor;
    {
      const auto scope = g_.NameScope("net");
      tensor = Mul(g_, fed, Const(g_, 2.0f), {.name = "doubled"});
    }
    ExponentialMovingAverage ema(0.75,
                                 {.num_updates = count ? step.value : Output(), .zero_debias = zero_debias});
    absl::StatusOr<Node*> of_variable;
    {
      const auto after = g_.ControlScope({AssignVariableOp(g_, w.handle, fed)});
      of_variable = ema.Apply(g_, std::vector{w});
    }
    const auto of_tensor = ema.ApplyToTensors(g_, {tensor});
    ASSERT_TRUE(of_variable.ok() && of_tensor.ok()) << of_variable.status() << of_tensor.status();
    Node* const count_step = AssignAddVariableOp(g_, step.handle, Const(g_, int64_t{3}));
    ExpectNames(name, ema);
    Initialize();
    const Output average_of_variable = ReadVariableOp(g_, ema.Average(w)->handle, DType::kFloat32);
    const Output average_of_tensor = ReadVariableOp(g_, ema.Average(tensor)->handle, DType::kFloat32);
    for (int i = 0; i < 4; ++i) {
      Run({{fed, Pattern({2, 3}, 2 + i)}}, {}, {TargetRef(*of_variable), TargetRef(*of_tensor)});
      Run({}, {}, {TargetRef(count_step)});
      ExpectRecorded(absl::StrCat("average/", name, "/", i, "/variable"), average_of_variable);
      ExpectRecorded(absl::StrCat("average/", name, "/", i, "/tensor"), average_of_tensor);
    }
  }

  void ExpectNames(const std::string& name, const ExponentialMovingAverage& ema) {
    std::vector<std::string> variables, restored;
    for (const ModelVariable& variable : AllVariables(g_)) variables.push_back(variable.name);
    std::sort(variables.begin(), variables.end());
    EXPECT_EQ(variables, RecordedStrings(absl::StrCat("average/", name, "/variables")));
    for (const auto& [saved, variable] : ema.VariablesToRestore(g_)) {
      restored.push_back(absl::StrCat(saved, " into ", variable.name));
    }
    EXPECT_EQ(restored, RecordedStrings(absl::StrCat("average/", name, "/restored")));
  }
};

TEST_F(AverageTest, Plain) { ExpectRecordedAverages("plain", false, false); }
TEST_F(AverageTest, FasterInTheBeginning) { ExpectRecordedAverages("counted", false, true); }
TEST_F(AverageTest, WithoutTheZeroOfTheBeginning) { ExpectRecordedAverages("debiased", true, false); }

TEST_F(AverageTest, BeginsWithAVariablesValueWhereItHasOne) {
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Scalar(1.0f));
  Initialize();
  Assign("w", Tensor::Scalar(5.0f));
  ExponentialMovingAverage ema(0.5);
  ASSERT_TRUE(ema.Apply(g_).ok()) << g_.status();
  Run({}, {}, {TargetRef(ema.Average(w)->initializer)});
  EXPECT_EQ(Run(ema.Average(w)->value).scalar<float>(), 5);
}

TEST_F(AverageTest, BeginsWithTheVariablesInitialValue) {
  const ModelVariable w = MakeVariable(g_, "w", DType::kFloat32, {4}, initializers::RandomNormal());
  ExponentialMovingAverage ema(0.5);
  ASSERT_TRUE(ema.Apply(g_).ok()) << g_.status();
  Initialize();
  ExpectNear(Run(w.value), Run(ema.Average(w)->value), "average");
}

TEST_F(AverageTest, AveragesTheTrainableOnesByDefault) {
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Scalar(1.0f));
  const ModelVariable fixed = MakeVariable(g_, "fixed", Tensor::Scalar(1.0f), {.trainable = false});
  ExponentialMovingAverage ema(0.5);
  EXPECT_EQ(ema.Average(w), nullptr);
  EXPECT_EQ(ema.AverageName(w), "w/ExponentialMovingAverage");
  ASSERT_TRUE(ema.Apply(g_).ok()) << g_.status();
  ASSERT_NE(ema.Average(w), nullptr);
  EXPECT_FALSE(ema.Average(w)->trainable);
  EXPECT_EQ(ema.Average(fixed), nullptr);
  EXPECT_EQ(g_.graph().collections().at("moving_average_variables"), std::vector<std::string>{"w:0"});
  // A second call makes no second average.
  const size_t count = AllVariables(g_).size();
  ASSERT_TRUE(ema.Apply(g_).ok()) << g_.status();
  EXPECT_EQ(AllVariables(g_).size(), count);
}

TEST_F(AverageTest, IntegersAreRefused) {
  const ModelVariable count = MakeVariable(g_, "count", Tensor::Scalar(1));
  EXPECT_FALSE(ExponentialMovingAverage(0.5).Apply(g_, std::vector{count}).ok());
  ExpectError("ExponentialMovingAverage: 'count' must be floating point, is int32");
}

TEST_F(AverageTest, TensorsOfUnknownShapeAreRefused) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1}, {.name = "x"});
  EXPECT_FALSE(ExponentialMovingAverage(0.5).ApplyToTensors(g_, {x}).ok());
  ExpectError("a tensor must be floating point and of known shape: 'x:0' is float[?]");
}

}  // namespace
}  // namespace weir
