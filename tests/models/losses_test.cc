// Losses: every reduction with several weights, and gradients.
#include "ops/losses/losses.h"

#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

using losses::LossOptions;
using losses::Reduction;

const std::map<std::string, Reduction>& Reductions() {
  static const auto* const reductions = new std::map<std::string, Reduction>{
      {"none", Reduction::kNone},
      {"sum", Reduction::kSum},
      {"mean", Reduction::kMean},
      {"over_batch", Reduction::kSumOverBatchSize},
      {"by_nonzero", Reduction::kSumByNonzeroWeights},
  };
  return *reductions;
}

std::map<std::string, std::variant<double, Output>> WeightsFor(GraphBuilder& g, const Shape& shape) {
  std::vector<int64_t> row(shape.rank(), 1);
  row[0] = shape.dim(0);
  return {{"default", 1.0},
          {"number", 0.5},
          {"zero", 0.0},
          {"scalar", Const(g, 0.25f)},
          {"each", Const(g, Pattern(shape, 4))},
          {"row", Const(g, Pattern(Shape(row), 2))}};
}

Output Bits(GraphBuilder& g) {
  const Output numbers = Const(g, Pattern({3, 4}, 2));
  return Cast(g, Greater(g, numbers, Const(g, 0.0f)), DType::kFloat32);
}

Output Distributions(GraphBuilder& g, const Shape& shape = {3, 4}) {
  return Softmax(g, Const(g, Pattern(shape, 2)));
}

struct LossCase {
  Shape losses;
  std::function<Output(GraphBuilder& g, Output x, const LossOptions& options)> loss;
};

std::map<std::string, LossCase> Cases() {
  using G = GraphBuilder&;
  using O = const LossOptions&;
  const auto labels = [](G g) { return Const(g, Pattern({3, 4}, 2)); };
  return {
      {"absolute_difference",
       {{3, 4}, [=](G g, Output x, O o) { return losses::AbsoluteDifference(g, labels(g), x, o); }}},
      {"mean_squared_error",
       {{3, 4}, [=](G g, Output x, O o) { return losses::MeanSquaredError(g, labels(g), x, o); }}},
      {"huber", {{3, 4}, [=](G g, Output x, O o) { return losses::HuberLoss(g, labels(g), x, o, 0.6); }}},
      {"cosine_distance",
       {{3, 1}, [=](G g, Output x, O o) { return losses::CosineDistance(g, labels(g), x, 1, o); }}},
      {"hinge", {{3, 4}, [](G g, Output x, O o) { return losses::HingeLoss(g, Bits(g), x, o); }}},
      {"log_loss",
       {{3, 4},
        [](G g, Output x, O o) {
          const Output p = AddV2(g, RealDiv(g, x, Const(g, 4.0f)), Const(g, 0.5f));
          return losses::LogLoss(g, Bits(g), p, o);
        }}},
      {"sigmoid", {{3, 4}, [](G g, Output x, O o) { return losses::SigmoidCrossEntropy(g, Bits(g), x, o); }}},
      {"sigmoid_smooth",
       {{3, 4}, [](G g, Output x, O o) { return losses::SigmoidCrossEntropy(g, Bits(g), x, o, 0.2); }}},
      {"softmax",
       {{3}, [](G g, Output x, O o) { return losses::SoftmaxCrossEntropy(g, Distributions(g), x, o); }}},
      {"softmax_smooth",
       {{3}, [](G g, Output x, O o) { return losses::SoftmaxCrossEntropy(g, Distributions(g), x, o, 0.2); }}},
      {"sparse_softmax",
       {{3},
        [](G g, Output x, O o) {
          return losses::SparseSoftmaxCrossEntropy(g, ConstIntegers(g, {3, 0, 1}), x, o);
        }}},
  };
}

class LossTest : public RecordedModelTest, public testing::WithParamInterface<std::string> {};

TEST_P(LossTest, IsTensorFlows) {
  const LossCase loss_case = Cases().at(GetParam());
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 4});
  const Feeds feeds = {{x, Pattern({3, 4}, 1)}};
  std::vector<std::pair<std::string, Output>> found;
  for (const auto& [kind, weights] : WeightsFor(g_, loss_case.losses)) {
    for (const auto& [name, reduction] : Reductions()) {
      const Output loss = loss_case.loss(g_, x, {.weights = weights, .reduction = reduction});
      found.emplace_back(absl::StrCat("losses/", GetParam(), "/", kind, "/", name), loss);
    }
  }
  const Output loss = loss_case.loss(g_, x, {.weights = WeightsFor(g_, loss_case.losses).at("each")});
  const auto gradients = AddGradients(g_, {loss}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  found.emplace_back(absl::StrCat("losses/", GetParam(), "/gradient"), (*gradients)[0]);
  std::vector<TensorRef> fetches;
  for (const auto& [name, output] : found) fetches.emplace_back(output);
  const std::vector<Tensor> values = Run(feeds, fetches);
  for (size_t i = 0; i < found.size(); ++i) {
    ExpectNear(Recorded(found[i].first), values[i], found[i].first, 1e-5);
  }
}

std::vector<std::string> NamesOfCases() {
  std::vector<std::string> names;
  for (const auto& [name, loss] : Cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, LossTest, testing::ValuesIn(NamesOfCases()),
                         [](const auto& info) { return info.param; });

class LossShapesTest : public RecordedModelTest {};

TEST_F(LossShapesTest, ClassesMayHaveSeveralOuterDimensions) {
  const LossOptions each = {.reduction = Reduction::kNone};
  const Output logits = Const(g_, Pattern({2, 3, 4}, 1));
  ExpectRecorded("losses/softmax_rank_3",
                 losses::SoftmaxCrossEntropy(g_, Distributions(g_, {2, 3, 4}), logits, each));
  const Output labels = Const(g_, Tensor::From<int64_t>({2, 3}, {3, 0, 1, 2, 2, 0}));
  ExpectRecorded("losses/sparse_softmax_rank_3", losses::SparseSoftmaxCrossEntropy(g_, labels, logits, each));
}

TEST_F(LossShapesTest, AColumnOfLabelsAndOfWeights) {
  const Output labels = Const(g_, Tensor::From<int32_t>({3, 1}, {3, 0, 1}));
  ExpectRecorded("losses/sparse_softmax_squeezed",
                 losses::SparseSoftmaxCrossEntropy(g_, labels, Const(g_, Pattern({3, 4}, 1)),
                                                   {.weights = Const(g_, Pattern({3, 1}, 2))}));
}

TEST_F(LossShapesTest, WeightsOfAnotherShapeAreRefused) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 4});
  losses::MeanSquaredError(g_, x, x, {.weights = Const(g_, Pattern({4}, 1))});
  ExpectError("loss 'mean_squared_error': weights must be a scalar");
  ExpectError("weights are [4], losses are [?,4]");
}

TEST_F(LossShapesTest, WeightsThatWouldMakeTheLossesMoreFailInTheStep) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 4});
  const Output weights = Placeholder(g_, DType::kFloat32, {-1, 1});
  const Output loss = losses::MeanSquaredError(g_, x, Const(g_, Pattern({1, 4}, 1)), {.weights = weights});
  ASSERT_TRUE(g_.ok()) << g_.status();
  const Tensor row = Pattern({1, 4}, 2);
  EXPECT_TRUE(RunStatus({{x, row}, {weights, Pattern({1, 1}, 1)}}, {loss}).ok());
  EXPECT_EQ(RunStatus({{x, row}, {weights, Pattern({3, 1}, 1)}}, {loss}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LossShapesTest, LabelsOfAnotherShapeAreRefused) {
  losses::HuberLoss(g_, Const(g_, Pattern({3}, 1)), Const(g_, Pattern({4}, 1)));
  ExpectError("huber_loss: labels and predictions must have one shape: labels are [3], predictions are [4]");
}

TEST_F(LossShapesTest, SmoothingOutsideOfTheUnitIntervalIsRefused) {
  losses::SigmoidCrossEntropy(g_, Bits(g_), Bits(g_), {}, 1.5);
  ExpectError("sigmoid_cross_entropy_loss: label_smoothing must be from 0 to 1, is 1.5");
}

TEST_F(LossShapesTest, TotalIsTheSumOfTheCollections) {
  const Output a = losses::MeanSquaredError(g_, Const(g_, 1.0f), Const(g_, 3.0f));
  EXPECT_EQ(a.name(), "mean_squared_error/value:0");
  losses::AbsoluteDifference(g_, Const(g_, 1.0f), Const(g_, 3.0f), {.collection = ""});
  g_.graph().collections()["regularization_losses"].push_back(Const(g_, 0.5f).name());
  EXPECT_EQ(losses::CollectedLosses(g_).size(), 1u);
  ExpectNear(Tensor::Scalar(4.5f), Run(losses::TotalLoss(g_)), "total");
  ExpectNear(Tensor::Scalar(4.0f), Run(losses::TotalLoss(g_, {.add_regularization_losses = false})),
             "without regularizers");
}

TEST_F(LossShapesTest, TotalOfNothingIsRefused) {
  losses::TotalLoss(g_);
  ExpectError("TotalLoss: the collections of losses are empty");
}

}  // namespace
}  // namespace weir
