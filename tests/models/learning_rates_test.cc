// The learning rates that change with the step.
#include "ops/training/learning_rates.h"

#include <functional>
#include <map>

#include "tests/models/recorded_model.h"

namespace weir {
namespace {

using Rate = std::function<Output(GraphBuilder& g, Output step)>;

const std::map<std::string, Rate>& Rates() {
  using G = GraphBuilder&;
  static const auto* const rates = new std::map<std::string, Rate>{
      {"exponential", [](G g, Output s) { return ExponentialDecay(g, 0.5, s, 10, 0.3); }},
      {"exponential_staircase",
       [](G g, Output s) { return ExponentialDecay(g, 0.5, s, 10, 0.3, {.staircase = true}); }},
      {"natural_exp", [](G g, Output s) { return NaturalExpDecay(g, 0.5, s, 10, 0.3); }},
      {"natural_exp_staircase",
       [](G g, Output s) { return NaturalExpDecay(g, 0.5, s, 10, 0.3, {.staircase = true}); }},
      {"inverse_time", [](G g, Output s) { return InverseTimeDecay(g, 0.5, s, 10, 0.3); }},
      {"inverse_time_staircase",
       [](G g, Output s) { return InverseTimeDecay(g, 0.5, s, 10, 0.3, {.staircase = true}); }},
      {"polynomial",
       [](G g, Output s) { return PolynomialDecay(g, 0.5, s, 30, {.end_learning_rate = 0.01, .power = 2}); }},
      {"polynomial_cycle",
       [](G g, Output s) {
         return PolynomialDecay(g, 0.5, s, 30, {.end_learning_rate = 0.01, .power = 0.5, .cycle = true});
       }},
      {"piecewise",
       [](G g, Output s) {
         return PiecewiseConstant(g, s, {3, 30}, {0.5, 0.25, 0.125});
       }},
      {"cosine", [](G g, Output s) { return CosineDecay(g, 0.5, s, 40); }},
      {"cosine_alpha", [](G g, Output s) { return CosineDecay(g, 0.5, s, 40, {.alpha = 0.2}); }},
      {"cosine_restarts", [](G g, Output s) { return CosineDecayRestarts(g, 0.5, s, 7); }},
      {"cosine_restarts_equal",
       [](G g, Output s) {
         return CosineDecayRestarts(g, 0.5, s, 7, {.t_mul = 1, .m_mul = 0.9, .alpha = 0.1});
       }},
      {"cosine_restarts_growing",
       [](G g, Output s) { return CosineDecayRestarts(g, 0.5, s, 7, {.t_mul = 1.5, .m_mul = 0.8}); }},
      {"linear_cosine", [](G g, Output s) { return LinearCosineDecay(g, 0.5, s, 40); }},
      {"linear_cosine_all",
       [](G g, Output s) {
         return LinearCosineDecay(g, 0.5, s, 40, {.num_periods = 1.5, .alpha = 0.1, .beta = 0.02});
       }},
  };
  return *rates;
}

class LearningRateTest : public RecordedModelTest, public testing::WithParamInterface<std::string> {
 protected:
  // The rate at each of the recorded steps, in one session.
  Tensor AtRecordedSteps(const Rate& rate) {
    const Output step = Placeholder(g_, DType::kInt64, Shape());
    const Output value = rate(g_, step);
    EXPECT_EQ(value.shape().ToString(), "[]");
    const Tensor steps = Recorded("learning_rate/steps");
    Tensor found(DType::kFloat32, steps.shape());
    for (int64_t i = 0; i < steps.num_elements(); ++i) {
      found.flat<float>()[i] = Run(value, {{step, Tensor::Scalar(steps.flat<int64_t>()[i])}}).scalar<float>();
    }
    return found;
  }
};

TEST_P(LearningRateTest, IsTensorFlows) {
  ExpectNear(Recorded("learning_rate/" + GetParam()), AtRecordedSteps(Rates().at(GetParam())), GetParam());
}

std::vector<std::string> NamesOfRates() {
  std::vector<std::string> names;
  for (const auto& [name, rate] : Rates()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, LearningRateTest, testing::ValuesIn(NamesOfRates()),
                         [](const auto& info) { return info.param; });

TEST_F(LearningRateTest, NoiseIsTensorFlowsStream) {
  g_.set_random_seed(5);
  const int64_t seed = Recorded("learning_rate/noisy_linear_cosine/seed").scalar<int64_t>();
  const Tensor found = AtRecordedSteps([&](GraphBuilder& g, Output s) {
    return NoisyLinearCosineDecay(g, 0.5, s, 40, {.alpha = 0.1, .seed = seed});
  });
  ExpectNear(Recorded("learning_rate/noisy_linear_cosine"), found, "noisy_linear_cosine");
}

TEST_F(LearningRateTest, NodesAreNamedLikeTensorFlows) {
  const Output step = Placeholder(g_, DType::kInt64, Shape());
  EXPECT_EQ(CosineDecayRestarts(g_, 0.1, step, 10).node->name().rfind("SGDRDecay/", 0), 0u);
  EXPECT_EQ(NaturalExpDecay(g_, 0.1, step, 10, 0.5).node->name().rfind("ExponentialDecay/", 0), 0u);
  EXPECT_EQ(CosineDecay(g_, 0.1, step, 10, {.name = "lr"}).node->name().rfind("lr/", 0), 0u);
}

TEST_F(LearningRateTest, StepsBelowOneAreRefused) {
  CosineDecay(g_, 0.1, Placeholder(g_, DType::kInt64, Shape()), 0);
  ExpectError("CosineDecay: decay_steps is 0, must be at least 1");
}

TEST_F(LearningRateTest, ShrinkingPeriodsAreRefused) {
  CosineDecayRestarts(g_, 0.1, Placeholder(g_, DType::kInt64, Shape()), 10, {.t_mul = 0.5});
  ExpectError("SGDRDecay: t_mul is 0.5, must be at least 1");
}

}  // namespace
}  // namespace weir
