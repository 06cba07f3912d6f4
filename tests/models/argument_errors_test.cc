// What layers, losses, metrics, optimizers, learning rates and initializers say when an argument is null or a
// number is none: at once, and with the name of the layer or function and of the argument.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "gtest/gtest.h"
#include "ops/control_flow.h"
#include "ops/embedding.h"
#include "ops/layers/layers.h"
#include "ops/losses/losses.h"
#include "ops/metrics/metrics.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/adadelta.h"
#include "ops/training/adagrad.h"
#include "ops/training/adam.h"
#include "ops/training/clipping.h"
#include "ops/training/exponential_moving_average.h"
#include "ops/training/ftrl.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/learning_rates.h"
#include "ops/training/loss_scale_optimizer.h"
#include "ops/training/momentum.h"
#include "ops/training/rms_prop.h"
#include "ops/variable.h"

namespace weir {
namespace {

using G = GraphBuilder&;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Mistake {
  std::function<void(GraphBuilder& g)> make;
  std::string error;  // is contained in the builder's
};

// Every mistake is the first error of a builder of its own.
void ExpectErrors(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    GraphBuilder g(StandardOps());
    mistake.make(g);
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument) << mistake.error;
    EXPECT_THAT(std::string(g.status().message()), testing::HasSubstr(mistake.error));
  }
}

Output Rows(G g) { return Placeholder(g, DType::kFloat32, {-1, 4}); }
Output Images(G g) { return Placeholder(g, DType::kFloat32, {-1, 8, 8, 3}); }
Output Volumes(G g) { return Placeholder(g, DType::kFloat32, {-1, 4, 4, 4, 2}); }
Output Nothing(GraphBuilder&, Output, const NodeOptions&, SourceLocation) { return {}; }

TEST(ArgumentErrorsTest, LayersOfNothing) {
  ExpectErrors({
      {[](G g) { layers::Dense(g, Output(), 3); }, "Dense 'dense': x is a null output"},
      {[](G g) { layers::Conv1D(g, Output(), 3, 2); }, "Conv1D 'conv1d': x is a null output"},
      {[](G g) { layers::Conv2D(g, Output(), 3, 2); }, "Conv2D 'conv2d': x is a null output"},
      {[](G g) { layers::Conv3D(g, Output(), 3, 2); }, "Conv3D 'conv3d': x is a null output"},
      {[](G g) { layers::Conv2DTranspose(g, Output(), 3, 2); }, "'conv2d_transpose': x is a null output"},
      {[](G g) { layers::Conv3DTranspose(g, Output(), 3, 2); }, "'conv3d_transpose': x is a null output"},
      {[](G g) { layers::DepthwiseConv2D(g, Output(), 2); }, "'depthwise_conv2d': x is a null output"},
      {[](G g) { layers::SeparableConv2D(g, Output(), 3, 2); }, "'separable_conv2d': x is a null output"},
      {[](G g) { layers::Dropout(g, Output(), 0.5, true); }, "Dropout 'dropout': x is a null output"},
      {[](G g) { layers::Flatten(g, Output()); }, "Flatten 'flatten': x is a null output"},
      {[](G g) { layers::MaxPool1D(g, Output(), 2, 2); }, "MaxPool1D 'max_pooling1d': x is a null output"},
      {[](G g) { layers::AvgPool2D(g, Output(), 2, 2); }, "'average_pooling2d': x is a null output"},
      {[](G g) { layers::MaxPool3D(g, Output(), 2, 2); }, "MaxPool3D 'max_pooling3d': x is a null output"},
      {[](G g) { layers::BatchNormalization(g, Output(), true); },
       "'batch_normalization': x is a null output"},
  });
}

TEST(ArgumentErrorsTest, NothingIsSaidOfWhatFollowsAnError) {
  GraphBuilder g(StandardOps());
  g.SetError(absl::InternalError("the first"));
  layers::Dense(g, Output(), 3);
  metrics::Mean(g, Output());
  EXPECT_THAT(std::string(g.status().message()), testing::StartsWith("the first"));
}

TEST(ArgumentErrorsTest, WhatUsersFunctionsGive) {
  const auto no_value = [](GraphBuilder&, DType, const Shape&) { return Output(); };
  const auto no_loss = [](GraphBuilder&, Output) { return Output(); };
  ExpectErrors({
      {[](G g) { layers::Dense(g, Rows(g), 3, Nothing); },
       "'dense': what the activation gave is a null output"},
      {[](G g) { layers::Conv2D(g, Images(g), 3, 2, Nothing); },
       "'conv2d': what the activation gave is a null output"},
      {[](G g) { layers::SeparableConv2D(g, Images(g), 3, 2, Nothing); },
       "'separable_conv2d': what the activation gave is a null output"},
      {[&](G g) { layers::Dense(g, Rows(g), 3, nullptr, {.kernel_initializer = no_value}); },
       "variable 'dense/kernel': what its initializer gave is a null output"},
      {[&](G g) { layers::Dense(g, Rows(g), 3, nullptr, {.bias_regularizer = no_loss}); },
       "variable 'dense/bias': what its regularizer gave is a null output"},
  });
}

TEST(ArgumentErrorsTest, NullInitializers) {
  using Function = std::function<Output(GraphBuilder&, DType, const Shape&)>;
  using Pointer = Output (*)(GraphBuilder&, DType, const Shape&);
  ExpectErrors({
      {[](G g) { layers::Dense(g, Rows(g), 3, nullptr, {.kernel_initializer = nullptr}); },
       "variable 'dense/kernel': its initializer is null"},
      {[](G g) { layers::Dense(g, Rows(g), 3, nullptr, {.bias_initializer = Initializer()}); },
       "variable 'dense/bias': its initializer is null"},
      {[](G g) { MakeVariable(g, "w", DType::kFloat32, {3}, Function()); },
       "variable 'w': its initializer is null"},
      {[](G g) { MakeVariable(g, "w", DType::kFloat32, {3}, Pointer()); },
       "variable 'w': its initializer is null"},
      {[](G g) { layers::BatchNormalization(g, Rows(g), true, {.moving_mean_initializer = nullptr}); },
       "variable 'batch_normalization/moving_mean': its initializer is null"},
      {[](G g) { Initializer()(g, DType::kFloat32, Shape({3})); }, "the initializer is null"},
      {[](G g) { MakeVariable(g, "w", Output()); }, "variable 'w': its initial value is a null output"},
      {[](G g) { MakeVariableBeside(g, ModelVariable(), "Slot", initializers::Zeros()); },
       "the variable beside which it is to be is a null output"},
  });
}

TEST(ArgumentErrorsTest, LossesAndMetrics) {
  ExpectErrors({
      {[](G g) { losses::ComputeWeightedLoss(g, Output()); },
       "loss 'weighted_loss': losses is a null output"},
      {[](G g) { losses::MeanSquaredError(g, Rows(g), Rows(g), {.weights = Output()}); },
       "loss 'mean_squared_error': the weights is a null output"},
      {[](G g) { losses::MeanSquaredError(g, Rows(g), Rows(g), {.weights = kNan}); },
       "loss 'mean_squared_error': the weight must be finite, is nan"},
      {[](G g) { losses::HuberLoss(g, Rows(g), Rows(g), {}, kNan); }, "huber_loss: delta must be finite"},
      {[](G g) { losses::HuberLoss(g, Rows(g), Rows(g), {}, -1); }, "delta must not be negative, is -1"},
      {[](G g) { losses::LogLoss(g, Rows(g), Rows(g), {}, kNan); }, "log_loss: epsilon must be finite"},
      {[](G g) { metrics::Mean(g, Output()); }, "metric 'mean': values is a null output"},
      {[](G g) { metrics::Accuracy(g, Output(), Output()); }, "labels are missing"},
  });
}

TEST(ArgumentErrorsTest, ATotalOfLossesThatAreNoScalars) {
  const auto collect = [](const char* collection) {
    return [collection](G g) {
      g.graph().collections()[collection].push_back(
          Const(g, Tensor::Vector<float>({1, 2}), {.name = "v"}).name());
      losses::TotalLoss(g);
    };
  };
  ExpectErrors({{collect("losses"), "total_loss: every loss must be a scalar, but 'v:0' is [2]"},
                {collect("regularization_losses"), "every loss must be a scalar, but 'v:0' is [2]"}});
}

TEST(ArgumentErrorsTest, NumbersOfLayersAndInitializers) {
  const auto initialize = [](const Initializer& initializer) {
    return [initializer](G g) { initializer(g, DType::kFloat32, Shape({3, 3})); };
  };
  ExpectErrors({
      {[](G g) { layers::BatchNormalization(g, Rows(g), true, {.epsilon = kNan}); },
       "BatchNormalization 'batch_normalization': epsilon must be finite, is nan"},
      {[](G g) { layers::BatchNormalization(g, Rows(g), true, {.momentum = kNan}); }, "momentum is nan"},
      {[](G g) { layers::Dropout(g, Rows(g), kNan, true); }, "rate must be in [0, 1), is nan"},
      {initialize(initializers::RandomNormal(kNan)), "RandomNormal: mean must be finite, is nan"},
      {initialize(initializers::RandomNormal(0, kInfinity)), "RandomNormal: stddev must be finite, is inf"},
      {initialize(initializers::TruncatedNormal(kNan)), "TruncatedNormal: stddev must be finite"},
      {initialize(initializers::Uniform(0, kNan)), "Uniform: maximum must be finite"},
      {initialize(initializers::Orthogonal(kNan)), "Orthogonal: gain must be finite"},
      {initialize(initializers::Identity(kNan)), "Identity: gain must be finite"},
      {initialize(initializers::VarianceScaling({.scale = kInfinity})), "scale must be finite, is inf"},
      {[](G g) { regularizers::L2(kNan)(g, Rows(g)); }, "regularizer: scale must be finite, is nan"},
      {[](G g) { ConstOf(g, DType::kInt32, kNan); }, "ConstOf: nan is no int32"},
      {[](G g) { ConstOf(g, DType::kInt32, 2147483648.0); }, "ConstOf: 2.14748e+09 is no int32"},
      {[](G g) { ConstOf(g, DType::kUint8, -1); }, "ConstOf: -1 is no uint8"},
      {[](G g) { ConstOf(g, DType::kInt64, 9223372036854775808.0); }, "is no int64"},
  });
  GraphBuilder g(StandardOps());
  ConstOf(g, DType::kInt32, -2147483648.9);
  ConstOf(g, DType::kUint8, 255.5);
  ConstOf(g, DType::kUint8, -0.5);
  EXPECT_TRUE(g.ok()) << g.status();
}

// A loss of one variable is minimized.
std::function<void(G)> Minimize(const std::function<std::unique_ptr<Optimizer>(G)>& make) {
  return [make](G g) {
    const ModelVariable w = MakeVariable(g, "w", Tensor::Vector<float>({1, 2}));
    EXPECT_FALSE(make(g)->Minimize(g, ReduceSum(g, w.value)).ok());
  };
}

template <typename T>
std::function<void(G)> MinimizeBy(const T& optimizer) {
  return Minimize([optimizer](G) { return std::make_unique<T>(optimizer); });
}

TEST(ArgumentErrorsTest, Optimizers) {
  ExpectErrors({
      {MinimizeBy(GradientDescent(kNan)), "GradientDescent: learning_rate must be finite, is nan"},
      {MinimizeBy(GradientDescent(Output())), "GradientDescent: learning_rate is a null output"},
      {MinimizeBy(Momentum(0.1, kInfinity)), "Momentum: momentum must be finite, is inf"},
      {MinimizeBy(Adam(0.1, {.beta1 = kNan})), "Adam: beta1 must be finite, is nan"},
      {MinimizeBy(Adam(0.1, {.beta2 = kNan})), "Adam: beta2 must be finite, is nan"},
      {MinimizeBy(Adam(0.1, {.epsilon = kNan})), "Adam: epsilon must be finite, is nan"},
      {MinimizeBy(RMSProp(0.1, {.decay = kNan})), "RMSProp: decay must be finite"},
      {MinimizeBy(RMSProp(0.1, {.momentum = kNan})), "RMSProp: momentum must be finite"},
      {MinimizeBy(RMSProp(0.1, {.epsilon = kNan})), "RMSProp: epsilon must be finite"},
      {MinimizeBy(Adadelta(0.1, {.rho = kNan})), "Adadelta: rho must be finite"},
      {MinimizeBy(Adagrad(0.1, {.initial_accumulator_value = kInfinity})),
       "Adagrad: initial_accumulator_value must be finite, is inf"},
      {MinimizeBy(Ftrl(0.1, {.l1 = kInfinity})), "Ftrl: l1 must be finite, is inf"},
      {MinimizeBy(Ftrl(0.1, {.learning_rate_power = kNan})), "Ftrl: learning_rate_power must be finite"},
      {Minimize([](G) { return std::make_unique<LossScaleOptimizer>(Adam(), FixedLossScale{kInfinity}); }),
       "the loss scale must be at least 1 and finite, is inf"},
  });
}

TEST(ArgumentErrorsTest, BranchesAndLoops) {
  const auto some = [](G g) { return std::vector<Output>{Const(g, 1.0f), Const(g, 2.0f)}; };
  ExpectErrors({
      {[&](G g) {
         EXPECT_EQ(Cond(
                       g, Const(g, true), [&] { return some(g); }, nullptr)
                       .size(),
                   2u);
       },
       "Cond 'cond': else_branch is null"},
      {[&](G g) { EXPECT_EQ(Cond(g, Const(g, true), nullptr, [&] { return some(g); }).size(), 2u); },
       "Cond 'cond': then_branch is null"},
      {[](G g) { EXPECT_TRUE(Cond(g, Const(g, true), nullptr, nullptr).empty()); }, "then_branch is null"},
      {[&](G g) { EXPECT_EQ(While(g, some(g), nullptr, nullptr).size(), 2u); },
       "While 'while': the condition is null"},
      {[&](G g) {
         const auto is_true = [&](const std::vector<Output>&) { return Const(g, true); };
         EXPECT_EQ(While(g, some(g), is_true, nullptr).size(), 2u);
       },
       "While 'while': the body is null"},
  });
}

TEST(ArgumentErrorsTest, EmbeddingsAndSummaries) {
  const auto table = [](G g) { return MakeVariable(g, "t", DType::kFloat32, {4, 2}, initializers::Zeros()); };
  GraphBuilder other(StandardOps());
  const Output theirs = ScalarSummary(other, Const(other, "tag"), Const(other, 1.0f));
  ExpectErrors({
      {[](G g) { EmbeddingLookup(g, ModelVariable(), Const(g, 1)); },
       "EmbeddingLookup 'embedding_lookup': the table is a null output"},
      {[&](G g) { EmbeddingLookup(g, table(g), Output()); }, "'embedding_lookup': ids is a null output"},
      {[&](G g) { EmbeddingLookup(g, std::vector<ModelVariable>{table(g)}, Output()); },
       "'embedding_lookup': ids is a null output"},
      {[&](G g) { EmbeddingLookupSparse(g, {table(g)}, {}); },
       "EmbeddingLookupSparse 'embedding_lookup_sparse': the values of the ids is a null output"},
      {[](G g) { AddSummary(g, Output()); }, "AddSummary: summary is a null output"},
      {[&](G g) { AddSummary(g, theirs); }, "another graph"},
  });
}

TEST(ArgumentErrorsTest, AveragesAndClipping) {
  const auto average = [](const Hyperparameter& decay) {
    return [decay](G g) {
      MakeVariable(g, "w", Tensor::Vector<float>({1, 2}));
      EXPECT_FALSE(ExponentialMovingAverage(decay).Apply(g).ok());
    };
  };
  ExpectErrors({
      {average(kNan), "ExponentialMovingAverage: decay must be finite, is nan"},
      {average(Output()), "ExponentialMovingAverage: decay is a null output"},
      {[](G g) { ClipByNorm(g, Rows(g), kInfinity); },
       "ClipByNorm: clip_norm must be finite and not negative"},
      {[](G g) { ClipByValue(g, Rows(g), kNan, 1); }, "ClipByValue: maximum must be at least nan"},
      {[](G g) { ClipByGlobalNorm(g, std::vector<Gradient>{Rows(g)}, kNan); }, "must be positive and finite"},
  });
}

TEST(ArgumentErrorsTest, LearningRates) {
  const auto rate = [](const std::function<Output(G g, Output step)>& make) {
    return [make](G g) { make(g, Const(g, int64_t{7})); };
  };
  ExpectErrors({
      {[](G g) { CosineDecay(g, 0.1, Output(), 10); }, "CosineDecay: global_step is a null output"},
      {[](G g) {
         PiecewiseConstant(g, Output(), {1}, {1, 2});
       },
       "global_step is a null output"},
      {rate([](G g, Output s) { return CosineDecay(g, kNan, s, 10); }),
       "CosineDecay: learning_rate must be finite, is nan"},
      {rate([](G g, Output s) { return CosineDecayRestarts(g, 0.1, s, 10, {.m_mul = kNan}); }),
       "SGDRDecay: m_mul must be finite"},
      {rate([](G g, Output s) { return ExponentialDecay(g, 0.1, s, 10, kNan); }),
       "decay_rate must be finite"},
      {rate([](G g, Output s) { return NaturalExpDecay(g, 0.1, s, 10, kNan); }), "decay_rate must be finite"},
      {rate([](G g, Output s) { return InverseTimeDecay(g, 0.1, s, 10, kNan); }),
       "decay_rate must be finite"},
      {rate([](G g, Output s) { return LinearCosineDecay(g, 0.1, s, 10, {.beta = kNan}); }),
       "LinearCosineDecay: beta must be finite"},
      {rate([](G g, Output s) { return NoisyLinearCosineDecay(g, 0.1, s, 10, {.initial_variance = -1}); }),
       "NoisyLinearCosineDecay: initial_variance is -1, must not be negative"},
      {rate([](G g, Output s) { return PolynomialDecay(g, 0.1, s, 10, {.power = kNan}); }),
       "PolynomialDecay: power must be finite"},
      {rate([](G g, Output s) {
         return PiecewiseConstant(g, s, {1}, {1, kNan});
       }),
       "PiecewiseConstant: each of the values must be finite, is nan"},
  });
}

// What TensorFlow takes and what computes a number is taken.
TEST(ArgumentErrorsTest, ZeroAndNegativeNumbersAreNoErrors) {
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Tensor::Vector<float>({1, 2}));
  const Output loss = ReduceSum(g, w.value);
  EXPECT_TRUE(GradientDescent(-0.1).Minimize(g, loss).ok());
  EXPECT_TRUE(Adam(0, {.beta1 = 0, .epsilon = 0}).Minimize(g, loss).ok());
  EXPECT_TRUE(ExponentialMovingAverage(2.0).Apply(g).ok());
  layers::BatchNormalization(g, Rows(g), true, {.epsilon = 0});
  ClipByValue(g, Rows(g), -kInfinity, kInfinity);
  EXPECT_TRUE(g.ok()) << g.status();
}

TEST(ArgumentErrorsTest, TransposedConvolutionsHaveNoDilations) {
  ExpectErrors({
      {[](G g) { layers::Conv2DTranspose(g, Images(g), 3, 2, nullptr, {.dilations = 2}); },
       "Conv2DTranspose 'conv2d_transpose': dilations must be 1"},
      {[](G g) {
         layers::Conv3DTranspose(g, Volumes(g), 3, 2, nullptr, {.dilations = {1, 2, 1}});
       },
       "dilations are 1x2x1"},
      {[](G g) { layers::Conv3DTranspose(g, Volumes(g), 3, 2, nullptr, {.data_format = "NCDHW"}); },
       "Conv3DTranspose 'conv3d_transpose': data_format must be NDHWC, is NCDHW"},
      {[](G g) { layers::Conv3DTranspose(g, Volumes(g), 3, 2, nullptr, {.strides = 1 << 30}); },
       "the result is too large: x is [?,4,4,4,2] (NDHWC), filters is 3, kernel size is 2x2x2"},
      {[](G g) { layers::Conv3DTranspose(g, Images(g), 3, 2); }, "x must be volumes with known channels"},
  });
}

// An output that its node does not have: past the end, or before the beginning.
TEST(ArgumentErrorsTest, OutputsThatANodeDoesNotHave) {
  for (const int index : {-1, 5}) {
    const auto no_output = [index](G g) {
      const Output p = Placeholder(g, DType::kFloat32, {-1, 4}, {.name = "p"});
      return Output{p.node, index};
    };
    const std::string no_such = absl::StrCat("'p:", index, "', but Placeholder 'p' has 1 outputs");
    ExpectErrors({
        {[&](G g) { layers::Dense(g, no_output(g), 3); }, "Dense 'dense': x is " + no_such},
        {[&](G g) { layers::Dropout(g, no_output(g), 0.5, true); }, "Dropout 'dropout': x is " + no_such},
        {[&](G g) { layers::Flatten(g, no_output(g)); }, "Flatten 'flatten': x is " + no_such},
        {[&](G g) { layers::BatchNormalization(g, no_output(g), true); }, "x is " + no_such},
        {[&](G g) { losses::MeanSquaredError(g, no_output(g), Rows(g)); }, "labels is " + no_such},
        {[&](G g) { losses::HingeLoss(g, Rows(g), no_output(g)); }, no_such},
        {[&](G g) { losses::SparseSoftmaxCrossEntropy(g, no_output(g), Rows(g)); }, "labels is " + no_such},
        {[&](G g) { losses::ComputeWeightedLoss(g, Rows(g), {.weights = no_output(g)}); },
         "the weights is " + no_such},
        {[&](G g) { metrics::Mean(g, no_output(g)); }, "values is " + no_such},
        {[&](G g) { metrics::Accuracy(g, no_output(g), Rows(g)); }, "labels is " + no_such},
        {[&](G g) { metrics::Auc(g, no_output(g), Rows(g)); }, "labels is " + no_such},
        {[&](G g) { metrics::Precision(g, no_output(g), Rows(g)); }, "labels is " + no_such},
        {[&](G g) { MakeVariable(g, "v", no_output(g)); }, "its initial value is " + no_such},
        {[&](G g) { ReduceMean(g, no_output(g)); }, "Mean 'Mean': input input is " + no_such},
        {[&](G g) { AddSummary(g, no_output(g)); }, "AddSummary: summary is " + no_such},
        {[&](G g) { CosineDecay(g, 1, no_output(g), 10); }, "global_step is " + no_such},
        {[&](G g) { EXPECT_FALSE(ExponentialMovingAverage(0.9).ApplyToTensors(g, {no_output(g)}).ok()); },
         "a tensor is " + no_such},
        {[&](G g) { EXPECT_FALSE(AddGradients(g, {no_output(g)}, {Rows(g)}).ok()); }, no_such},
        {[&](G g) { EXPECT_FALSE(AddGradients(g, {Const(g, 1.0f)}, {no_output(g)}).ok()); }, no_such},
    });
  }
}

TEST(ArgumentErrorsTest, WhatUsersFunctionsGiveIsOfThisGraph) {
  GraphBuilder other(StandardOps());
  const Output theirs = Const(other, 1.0f, {.name = "theirs"});
  const auto give_theirs = [&](GraphBuilder&, Output, const NodeOptions&, SourceLocation) { return theirs; };
  ExpectErrors({
      {[&](G g) { layers::Dense(g, Rows(g), 3, give_theirs); },
       "Dense 'dense': what the activation gave is 'theirs:0', a node of another graph"},
      {[&](G g) {
         layers::Dense(g, Rows(g), 3, nullptr,
                       {.kernel_regularizer = [&](GraphBuilder&, Output) { return theirs; }});
       },
       "'dense/kernel': what its regularizer gave is 'theirs:0', a node of another graph"},
  });
}

TEST(ArgumentErrorsTest, SummariesAreStrings) {
  ExpectErrors({{[](G g) { AddSummary(g, Const(g, 1.0f)); },
                 "AddSummary: 'Const:0' must be a serialized Summary, a string, is float[]"}});
}

TEST(ArgumentErrorsTest, GradientsOfYsFitThem) {
  const auto of = [](const std::function<std::vector<Output>(G, Output)>& gradients) {
    return [gradients](G g) {
      const Output x = Rows(g);
      const Output y = ReduceSum(g, x, {.name = "y"});
      EXPECT_FALSE(AddGradients(g, {y}, {x}, gradients(g, x)).ok());
    };
  };
  GraphBuilder other(StandardOps());
  const Output theirs = Const(other, 1.0f, {.name = "theirs"});
  ExpectErrors({
      {of([](G g, Output) {
         return std::vector{Const(g, 1.0f), Const(g, 1.0f)};
       }),
       "gradients: 2 grad_ys for 1 ys"},
      {of([](G g, Output) { return std::vector{Const(g, 1)}; }),
       "gradients: the grad_y of 'y:0' must be float[], 'Const:0' is int32[]"},
      {of([](G, Output x) { return std::vector{x}; }),
       "gradients: the grad_y of 'y:0' must be float[], 'Placeholder:0' is float[?,4]"},
      {of([&](G, Output) { return std::vector{theirs}; }), "another graph"},
  });
}

TEST(ArgumentErrorsTest, PoolsHaveWindows) {
  for (const int64_t size : {int64_t{-1}, int64_t{0}}) {
    ExpectErrors({
        {[&](G g) { layers::MaxPool2D(g, Images(g), size, 1); }, absl::StrCat("no window has size ", size)},
        {[&](G g) { layers::AvgPool3D(g, Volumes(g), size, 1, {.padding = "SAME"}); },
         absl::StrCat("no window has size ", size)},
    });
  }
}

TEST(ArgumentErrorsTest, PlaceholdersHaveADType) {
  ExpectErrors({{[](G g) { Placeholder(g, DType::kInvalid); }, "attr dtype is invalid"},
                {[](G g) { Placeholder(g, static_cast<DType>(99)); }, "attr dtype is invalid"}});
}

TEST(ArgumentErrorsTest, AStepIsAScalarNumber) {
  ExpectErrors({
      {[](G g) { CosineDecay(g, 1, Rows(g), 10); },
       "CosineDecay: global_step must be a scalar number, 'Placeholder:0' is float[?,4]"},
      {[](G g) { ExponentialDecay(g, 1, Const(g, "one"), 10, 0.5); },
       "ExponentialDecay: global_step must be a scalar number, 'Const:0' is string[]"},
  });
}

TEST(ArgumentErrorsTest, TwoGlobalSteps) {
  ExpectErrors(
      {{[](G g) {
          GlobalStep(g);
          g.graph().collections()["global_step"].push_back("another");
          EXPECT_FALSE(GlobalStep(g).handle);
        },
        "the collection 'global_step' names 2 variables, 'global_step', 'another': it must name one"}});
}

TEST(ArgumentErrorsTest, OpsWithoutAnOutputGiveNone) {
  ExpectErrors({{[](G g) { EXPECT_FALSE(g.AddOp("NoOp", {})); }, "NoOp 'NoOp' has no output"}});
}

TEST(ArgumentErrorsTest, AFinishedBuilderBuildsNothing) {
  GraphBuilder g(StandardOps());
  const Output x = Rows(g);
  const absl::StatusOr<std::unique_ptr<Graph>> graph = g.Finish();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(g.ok());
  EXPECT_FALSE(Relu(g, x));
  EXPECT_EQ(g.graph().num_nodes(), 0);
  EXPECT_EQ(g.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(g.status().message()), testing::HasSubstr("was handed over by Finish"));
}

}  // namespace
}  // namespace weir
