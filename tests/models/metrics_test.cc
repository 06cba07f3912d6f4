// Metrics: value and update after each of several batches.
#include "ops/metrics/metrics.h"

#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/variable.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

using MakeMetric = std::function<Metric(GraphBuilder& g, Output x, Output y, Output w)>;

Output Bits(GraphBuilder& g, Output x) { return Cast(g, Greater(g, x, Const(g, 0.0f)), DType::kFloat32); }

// Numbers from -1 to 1 as scores from 0 to 1.
Output Scores(GraphBuilder& g, Output y) { return AddV2(g, Mul(g, y, Const(g, 0.5f)), Const(g, 0.5f)); }

std::map<std::string, MakeMetric> Cases() {
  using G = GraphBuilder&;
  using O = Output;
  using namespace metrics;
  return {
      {"mean", [](G g, O x, O, O) { return Mean(g, x); }},
      {"mean_weighted", [](G g, O x, O, O w) { return Mean(g, x, {.weights = w}); }},
      {"accuracy", [](G g, O x, O y, O) { return Accuracy(g, Bits(g, x), Bits(g, y)); }},
      {"accuracy_weighted",
       [](G g, O x, O y, O w) { return Accuracy(g, Bits(g, x), Bits(g, y), {.weights = w}); }},
      {"mean_squared_error", [](G g, O x, O y, O w) { return MeanSquaredError(g, x, y, {.weights = w}); }},
      {"precision", [](G g, O x, O y, O) { return Precision(g, Bits(g, x), Bits(g, y)); }},
      {"precision_weighted",
       [](G g, O x, O y, O w) { return Precision(g, Bits(g, x), Bits(g, y), {.weights = w}); }},
      {"recall", [](G g, O x, O y, O) { return Recall(g, Bits(g, x), Bits(g, y)); }},
      {"recall_weighted",
       [](G g, O x, O y, O w) { return Recall(g, Bits(g, x), Bits(g, y), {.weights = w}); }},
      {"auc", [](G g, O x, O y, O) { return Auc(g, Bits(g, x), Scores(g, y)); }},
      {"auc_coarse",
       [](G g, O x, O y, O w) {
         return Auc(g, Bits(g, x), Scores(g, y), {.num_thresholds = 5, .weights = w});
       }},
  };
}

class MetricTest : public RecordedModelTest, public testing::WithParamInterface<std::string> {
 protected:
  Output BatchInput() { return Placeholder(g_, DType::kFloat32, {-1, 4}); }
};

TEST_P(MetricTest, IsTensorFlows) {
  const std::string prefix = absl::StrCat("metrics/", GetParam());
  const Output x = BatchInput(), y = BatchInput();
  const Output weights = AddV2(g_, Const(g_, Pattern({3, 1}, 5)), Const(g_, 1.0f));
  const Metric metric = Cases().at(GetParam())(g_, x, y, weights);
  Node* const init = InitializeLocalVariables(g_);
  ASSERT_TRUE(g_.ok()) << g_.status();
  std::vector<std::string> variables;
  for (const std::string& handle : g_.graph().collections().at("metric_variables")) {
    variables.emplace_back(absl::StripSuffix(handle, ":0"));
  }
  std::sort(variables.begin(), variables.end());
  EXPECT_EQ(variables, RecordedStrings(prefix + "/variables"));
  EXPECT_TRUE(AllVariables(g_).empty());
  // Begins again when it is initialized again.
  for (int repetition = 0; repetition < 2; ++repetition) {
    Run({}, {}, {TargetRef(init)});
    ExpectRecorded(prefix + "/before", metric.value);
    for (int i = 0; i < 3; ++i) {
      const Feeds feeds = {{x, Pattern({3, 4}, 1 + i)}, {y, Pattern({3, 4}, 4 + i)}};
      ExpectRecorded(absl::StrCat(prefix, "/", i, "/update"), metric.update, feeds);
      ExpectRecorded(absl::StrCat(prefix, "/", i, "/value"), metric.value);
    }
  }
}

std::vector<std::string> NamesOfCases() {
  std::vector<std::string> names;
  for (const auto& [name, metric] : Cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, MetricTest, testing::ValuesIn(NamesOfCases()),
                         [](const auto& info) { return info.param; });

TEST_F(MetricTest, ShapesThatDifferAreRefused) {
  metrics::Precision(g_, Const(g_, Pattern({3}, 1)), Const(g_, Pattern({4}, 1)));
  ExpectError("Precision: labels and predictions must have one shape: labels are [3], predictions are [4]");
}

TEST_F(MetricTest, ACurveOfOnePointIsRefused) {
  metrics::Auc(g_, BatchInput(), BatchInput(), {.num_thresholds = 1});
  ExpectError("Auc: num_thresholds must be from 2 to 100000, is 1");
}

// A training session initialises what there is when it begins, not what there was when somebody asked.
TEST_F(MetricTest, AnInitializationForTheProgramIsNotTheSessions) {
  metrics::Mean(g_, Const(g_, 1.0f));
  EXPECT_EQ(InitializeLocalVariables(g_)->control_inputs().size(), 2u);
  EXPECT_FALSE(g_.graph().collections().contains("local_init_op"));
}

}  // namespace
}  // namespace weir
