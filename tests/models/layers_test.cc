// Layers: names and shapes of their variables, results, gradients, moving averages.
#include "ops/layers/layers.h"

#include <cmath>
#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "ops/losses/losses.h"
#include "ops/partitioner.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

using layers::Window;
using Build = std::function<Output(GraphBuilder& g, Output x)>;

struct LayerCase {
  Shape x;
  Build build;
};

std::map<std::string, LayerCase> DenseCases() {
  using G = GraphBuilder&;
  return {
      {"dense", {{3, 4}, [](G g, Output x) { return layers::Dense(g, x, 5, Relu); }}},
      {"dense_twice",
       {{3, 4},
        [](G g, Output x) {
          return layers::Dense(g, layers::Dense(g, x, 5, Tanh), 2, nullptr, {.use_bias = false});
        }}},
      {"dense_rank_3", {{2, 3, 4}, [](G g, Output x) { return layers::Dense(g, x, 5); }}},
      {"dense_regularized",
       {{3, 4},
        [](G g, Output x) {
          return layers::Dense(g, x, 5, nullptr,
                               {.kernel_regularizer = regularizers::L2(0.5),
                                .bias_regularizer = regularizers::L1(0.25),
                                .name = "head"});
        }}},
  };
}

std::map<std::string, LayerCase> ConvolutionCases() {
  using G = GraphBuilder&;
  return {
      {"conv1d", {{2, 7, 3}, [](G g, Output x) { return layers::Conv1D(g, x, 4, 3); }}},
      {"conv1d_strided",
       {{2, 7, 3},
        [](G g, Output x) {
          return layers::Conv1D(g, x, 4, 3, nullptr, {.strides = 2, .padding = "SAME"});
        }}},
      {"conv1d_dilated",
       {{2, 9, 3},
        [](G g, Output x) {
          return layers::Conv1D(g, x, 2, 3, nullptr, {.dilations = 2, .use_bias = false});
        }}},
      {"conv2d",
       {{2, 6, 5, 3},
        [](G g, Output x) {
          return layers::Conv2D(g, x, 4, {3, 2}, nullptr, {.strides = {2, 1}, .padding = "SAME"});
        }}},
      {"conv2d_transpose",
       {{2, 3, 4, 3},
        [](G g, Output x) {
          return layers::Conv2DTranspose(g, x, 2, {3, 2}, nullptr, {.strides = {2, 1}});
        }}},
      {"conv2d_transpose_same",
       {{2, 3, 4, 3},
        [](G g, Output x) {
          return layers::Conv2DTranspose(g, x, 2, 3, Tanh, {.strides = 2, .padding = "SAME"});
        }}},
      {"conv2d_transpose_gap",
       {{1, 2, 2, 1},
        [](G g, Output x) {
          return layers::Conv2DTranspose(g, x, 2, 1, nullptr, {.strides = 3, .use_bias = false});
        }}},
      {"separable_conv2d",
       {{2, 6, 5, 3},
        [](G g, Output x) {
          return layers::SeparableConv2D(g, x, 4, {3, 2}, nullptr, {.depth_multiplier = 2});
        }}},
      {"separable_conv2d_strided",
       {{2, 6, 6, 3},
        [](G g, Output x) {
          return layers::SeparableConv2D(
              g, x, 4, 3, Relu,
              {.strides = 2, .padding = "SAME", .pointwise_regularizer = regularizers::L2(0.5)});
        }}},
  };
}

std::map<std::string, LayerCase> VolumeCases() {
  using G = GraphBuilder&;
  return {
      {"conv3d",
       {{2, 3, 4, 5, 2},
        [](G g, Output x) {
          return layers::Conv3D(g, x, 3, {2, 3, 1}, nullptr, {.strides = {1, 2, 1}, .padding = "SAME"});
        }}},
      {"conv3d_valid",
       {{1, 4, 4, 5, 2},
        [](G g, Output x) { return layers::Conv3D(g, x, 2, 3, Tanh, {.use_bias = false}); }}},
      {"conv3d_transpose",
       {{2, 2, 3, 2, 3},
        [](G g, Output x) {
          return layers::Conv3DTranspose(g, x, 2, {2, 3, 1}, nullptr, {.strides = {2, 1, 2}});
        }}},
      {"conv3d_transpose_same",
       {{1, 2, 3, 2, 2},
        [](G g, Output x) {
          return layers::Conv3DTranspose(g, x, 3, 3, Tanh,
                                         {.strides = 2, .padding = "SAME", .use_bias = false});
        }}},
      {"max_pooling3d",
       {{2, 4, 5, 4, 2},
        [](G g, Output x) {
          return layers::MaxPool3D(g, x, {2, 3, 2}, {2, 1, 2});
        }}},
      {"average_pooling3d",
       {{2, 4, 5, 4, 2},
        [](G g, Output x) {
          return layers::AvgPool3D(g, x, {2, 3, 2}, {2, 1, 3}, {.padding = "SAME"});
        }}},
  };
}

// Layers whose variables are in two parts.
std::map<std::string, LayerCase> CasesInParts() {
  using G = GraphBuilder&;
  const Partitioner two = partitioners::FixedSize(2);
  return {
      {"dense_in_parts",
       {{3, 4},
        [=](G g, Output x) {
          return layers::Dense(g, x, 5, Relu,
                               {.kernel_regularizer = regularizers::L2(0.5),
                                .bias_regularizer = regularizers::L1(0.25),
                                .partitioner = two});
        }}},
      {"conv1d_in_parts",
       {{2, 7, 3}, [=](G g, Output x) { return layers::Conv1D(g, x, 4, 3, nullptr, {.partitioner = two}); }}},
      {"conv2d_in_parts",
       {{2, 6, 5, 3},
        [=](G g, Output x) {
          return layers::Conv2D(g, x, 4, {3, 2}, nullptr,
                                {.use_bias = false, .partitioner = partitioners::FixedSize(2, 3)});
        }}},
      {"conv2d_transpose_in_parts",
       {{2, 3, 4, 3},
        [=](G g, Output x) {
          return layers::Conv2DTranspose(g, x, 2, {3, 2}, nullptr, {.partitioner = two});
        }}},
      {"conv3d_in_parts",
       {{1, 4, 4, 5, 2},
        [=](G g, Output x) { return layers::Conv3D(g, x, 2, 3, nullptr, {.partitioner = two}); }}},
      {"separable_conv2d_in_parts",
       {{2, 6, 5, 3},
        [=](G g, Output x) {
          return layers::SeparableConv2D(
              g, x, 4, {3, 2}, nullptr, {.pointwise_regularizer = regularizers::L2(0.5), .partitioner = two});
        }}},
  };
}

std::map<std::string, LayerCase> PoolingCases() {
  using G = GraphBuilder&;
  return {
      {"max_pooling1d",
       {{2, 7, 3}, [](G g, Output x) { return layers::MaxPool1D(g, x, 3, 2, {.padding = "SAME"}); }}},
      {"average_pooling1d", {{2, 7, 3}, [](G g, Output x) { return layers::AvgPool1D(g, x, 3, 2); }}},
      {"max_pooling2d",
       {{2, 6, 5, 3},
        [](G g, Output x) {
          return layers::MaxPool2D(g, x, {2, 3}, {2, 1});
        }}},
      {"average_pooling2d",
       {{2, 6, 5, 3},
        [](G g, Output x) {
          return layers::AvgPool2D(g, x, {2, 3}, {2, 1}, {.padding = "SAME"});
        }}},
  };
}

// Each is also asked to learn in the step whether it trains (training_is_fed).
std::map<std::string, LayerCase> BatchNormCases(bool training_is_fed) {
  const auto norm = [=](bool training, const layers::BatchNormalizationOptions& options = {}) {
    return [=](GraphBuilder& g, Output x) {
      if (!training_is_fed) return layers::BatchNormalization(g, x, training, options);
      const Output fed = PlaceholderWithDefault(g, Const(g, training), Shape());
      return layers::BatchNormalization(g, x, fed, options);
    };
  };
  const layers::BatchNormalizationOptions bare = {.center = false, .scale = false};
  return {
      {"batch_norm_images", {{3, 4, 2, 3}, norm(true)}},
      {"batch_norm_images_inference", {{3, 4, 2, 3}, norm(false)}},
      {"batch_norm_images_bare", {{3, 4, 2, 3}, norm(true, bare)}},
      {"batch_norm_rows", {{6, 4}, norm(true, {.momentum = 0.75, .epsilon = 0.01})}},
      {"batch_norm_rows_inference", {{6, 4}, norm(false)}},
      {"batch_norm_rows_bare", {{6, 4}, norm(true, bare)}},
      {"batch_norm_sequences_first", {{3, 4, 5}, norm(true, {.data_format = "NCHW"})}},
  };
}

std::map<std::string, LayerCase> Cases() {
  std::map<std::string, LayerCase> all = DenseCases();
  all.merge(ConvolutionCases());
  all.merge(VolumeCases());
  all.merge(CasesInParts());
  all.merge(PoolingCases());
  all.merge(BatchNormCases(false));
  for (auto& [name, layer] : BatchNormCases(true)) all[name + "/fed"] = layer;
  return all;
}

std::string Describe(const ModelVariable& variable) {
  return absl::StrCat(variable.name, " ", variable.shape.ToString(), variable.trainable ? "" : " fixed");
}

// A value for variable number `index`; deviations are positive.
Tensor ValueFor(const ModelVariable& variable, int index) {
  Tensor value = Pattern(variable.shape, 2 + index);
  if (absl::StrContains(variable.name, "variance")) {
    for (float& element : value.flat<float>()) element = std::abs(element) + 0.5f;
  }
  return value;
}

class LayerTest : public RecordedModelTest, public testing::WithParamInterface<std::string> {
 protected:
  void AssignPatterns() {
    int index = 0;
    for (const ModelVariable& variable : AllVariables(g_)) {
      Assign(variable.name, ValueFor(variable, index++));
    }
  }
};

TEST_P(LayerTest, IsTensorFlows) {
  const LayerCase layer = Cases().at(GetParam());
  const std::string prefix = "layers/" + GetParam().substr(0, GetParam().find('/')) + "/";
  const Output x = Placeholder(g_, DType::kFloat32, layer.x);
  const Output y = layer.build(g_, x);
  ASSERT_TRUE(g_.ok()) << g_.status();
  const Tensor wanted = Recorded(prefix + "output");
  EXPECT_EQ(y.shape().ToString(), wanted.shape().ToString());
  std::vector<std::string> variables;
  for (const ModelVariable& variable : AllVariables(g_)) variables.push_back(Describe(variable));
  EXPECT_EQ(variables, RecordedStrings(prefix + "variables"));

  const Output loss = ReduceSum(g_, Mul(g_, y, Const(g_, Pattern(wanted.shape(), 9))));
  std::vector<Output> sources = {x};
  for (const ModelVariable& variable : TrainableVariables(g_)) sources.push_back(variable.handle);
  const auto gradients = AddGradients(g_, {loss}, sources);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Output penalty = losses::RegularizationLoss(g_);
  const bool is_regularized = g_.graph().collections().count("regularization_losses") > 0;

  AssignPatterns();
  const Feeds feeds = {{x, Pattern(layer.x, 1)}};
  constexpr double kTolerance = 2e-5;  // sums of up to a hundred products
  ExpectNear(wanted, Run(y, feeds), prefix + "output", kTolerance);
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string name = prefix + "gradient/" + (i == 0 ? "x" : TrainableVariables(g_)[i - 1].name);
    ExpectNear(Recorded(name), Run((*gradients)[i], feeds), name, kTolerance);
  }
  if (is_regularized) ExpectRecorded(prefix + "regularization", penalty);
  std::vector<TargetRef> updates;
  for (Node* update : layers::UpdateOps(g_)) updates.emplace_back(update);
  if (updates.empty()) return;
  Run(feeds, {}, updates);
  int index = 0;
  for (const ModelVariable& variable : AllVariables(g_)) {
    // Fed with false, the layer has updates all the same, and they change nothing.
    const bool is_inference = absl::StrContains(prefix, "inference");
    const std::string name = prefix + "updated/" + variable.name;
    const Tensor value = is_inference ? ValueFor(variable, index) : Recorded(name);
    ExpectNear(value, Run(variable.value), name, kTolerance);
    ++index;
  }
}

std::vector<std::string> NamesOfCases() {
  std::vector<std::string> names;
  for (const auto& [name, layer] : Cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, LayerTest, testing::ValuesIn(NamesOfCases()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '/' ? '_' : c;
  return name;
});

class LayerErrorTest : public RecordedModelTest {
 protected:
  Output Images(const PartialShape& shape = {-1, 8, 8, 3}) { return Placeholder(g_, DType::kFloat32, shape); }
};

TEST_F(LayerErrorTest, VolumesOfOtherLayoutsAreRefused) {
  layers::Conv3D(g_, Placeholder(g_, DType::kFloat32, {-1, 2, 8, 8, 8}), 4, 3, nullptr,
                 {.data_format = "NCDHW"});
  ExpectError("Conv3D 'conv3d': x must be volumes with known channels (NDHWC)");
}

TEST_F(LayerErrorTest, ImagesAreNoVolumes) {
  layers::Conv3D(g_, Images(), 4, {1, 2, 3});
  ExpectError("x is [?,8,8,3] (), filters is 4, kernel size is 1x2x3");
}

// As tf.layers has it: the averages stay whole.
TEST_F(LayerErrorTest, ParametersOfBatchNormalizationMayBeInParts) {
  layers::BatchNormalization(g_, Images(), true, {.partitioner = partitioners::FixedSize(2)});
  ASSERT_TRUE(g_.ok()) << g_.status();
  std::vector<std::string> names;
  for (const ModelVariable& variable : AllVariables(g_)) names.push_back(Describe(variable));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "batch_normalization/gamma/part_0 [2]", "batch_normalization/gamma/part_1 [1]",
                       "batch_normalization/beta/part_0 [2]", "batch_normalization/beta/part_1 [1]",
                       "batch_normalization/moving_mean [3] fixed",
                       "batch_normalization/moving_variance [3] fixed"}));
}

TEST_F(LayerErrorTest, PartsAreReadUnderTheirVariablesName) {
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 4});
  const Output y =
      layers::Dense(g_, x, 3, nullptr, {.use_bias = false, .partitioner = partitioners::FixedSize(2)});
  ASSERT_TRUE(g_.ok()) << g_.status();
  EXPECT_EQ(y.node->input(1).node->name(), "dense/kernel/ConcatPartitions/concat");
}

TEST_F(LayerErrorTest, APartitionerThatCannotCutIsRefused) {
  layers::Dense(g_, Placeholder(g_, DType::kFloat32, {-1, 4}), 3, nullptr,
                {.partitioner = partitioners::FixedSize(2, 1)});
  ExpectError(
      "partitioned variable 'bias': a variable of shape [3] cannot be "
      "cut along axis 1");
}

TEST_F(LayerErrorTest, SidesOfATransposedConvolutionMayBeUnknown) {
  const Output x = Images({-1, -1, 4, 3});
  const Output y = layers::Conv2DTranspose(g_, x, 2, {3, 2}, nullptr, {.strides = {2, 1}});
  ASSERT_TRUE(g_.ok()) << g_.status();
  EXPECT_EQ(y.shape().ToString(), "[?,?,5,2]");
  Initialize();
  EXPECT_EQ(Run(y, {{x, Pattern({2, 3, 4, 3}, 1)}}).shape().ToString(), "[2,7,5,2]");
}

TEST_F(LayerErrorTest, AVariableTooLargeIsRefused) {
  layers::Dense(g_, Placeholder(g_, DType::kFloat32, {-1, int64_t{1} << 50}), 1 << 30);
  ExpectError("layer 'dense': the shape of 'kernel'");
}

TEST_F(LayerErrorTest, AResultTooLargeIsRefused) {
  layers::Conv2DTranspose(g_, Images(), 2, 3, nullptr, {.strides = 1 << 30});
  ExpectError("Conv2DTranspose 'conv2d_transpose': the result is too large: x is [?,8,8,3] (NHWC)");
}

TEST_F(LayerErrorTest, SequencesOfUnknownChannelsAreRefused) {
  layers::Conv1D(g_, Placeholder(g_, DType::kFloat32, {-1, 7, -1}), 4, 3);
  ExpectError("Conv1D 'conv1d': x must be sequences with known channels (NWC or NCW)");
}

TEST_F(LayerErrorTest, ADepthBelowOneIsRefused) {
  layers::SeparableConv2D(g_, Images(), 4, 3, nullptr, {.depth_multiplier = 0});
  ExpectError("depth_multiplier at least 1: x is [?,8,8,3], kernel size is 3x3, depth_multiplier is 0");
}

TEST_F(LayerErrorTest, DepthwiseConvolutionNamesItsVariablesLikeKeras) {
  const Output y = layers::DepthwiseConv2D(g_, Images(), 3, nullptr, {.depth_multiplier = 2});
  ASSERT_TRUE(g_.ok()) << g_.status();
  EXPECT_EQ(y.shape().ToString(), "[?,6,6,6]");
  EXPECT_EQ(Describe(AllVariables(g_)[0]), "depthwise_conv2d/depthwise_kernel [3,3,3,2]");
  EXPECT_EQ(Describe(AllVariables(g_)[1]), "depthwise_conv2d/bias [6]");
}

TEST_F(LayerErrorTest, ANegativeRegularizerIsRefused) {
  layers::Dense(g_, Placeholder(g_, DType::kFloat32, {-1, 4}), 3, nullptr,
                {.kernel_regularizer = regularizers::L1L2(0.5, -1)});
  ExpectError("regularizer: scale must not be negative, is -1");
}

TEST_F(LayerErrorTest, FixedLayersAreNotTrained) {
  layers::Dense(g_, Placeholder(g_, DType::kFloat32, {-1, 4}), 3, nullptr, {.trainable = false});
  EXPECT_EQ(AllVariables(g_).size(), 2u);
  EXPECT_TRUE(TrainableVariables(g_).empty());
}

// A training step that is fed whether it trains: the gradient goes through the branches.
TEST_F(LayerErrorTest, TrainsThroughAFedBatchNormalization) {
  const Output training = PlaceholderWithDefault(g_, Const(g_, true), Shape());
  const Output x = Const(g_, Pattern({3, 4, 2, 3}, 1));
  const Output y = layers::BatchNormalization(g_, x, training);
  const Output loss = ReduceSum(g_, Mul(g_, y, Const(g_, Pattern({3, 4, 2, 3}, 9))));
  const auto train = GradientDescent(1.0).Minimize(g_, loss);
  ASSERT_TRUE(train.ok()) << train.status();
  std::vector<Node*> nodes = layers::UpdateOps(g_);
  nodes.push_back(*train);
  Node* const step = Group(g_, nodes);
  Initialize();
  const Tensor before = Run(AllVariables(g_)[1].value);
  Run({}, {}, {TargetRef(step)});
  const Tensor after = Run(AllVariables(g_)[1].value);
  const Tensor gradient = Recorded("layers/batch_norm_images/gradient/batch_normalization/beta");
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(before.flat<float>()[i] - after.flat<float>()[i], gradient.flat<float>()[i], 1e-4);
  }
}

}  // namespace
}  // namespace weir
