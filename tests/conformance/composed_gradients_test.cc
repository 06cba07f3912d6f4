// Gradients that no record of the suite checks: second derivatives, those of variables and of random ops. The
// numbers are those of TensorFlow 2.21 (tf.gradients), where it has any.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "ops/register_ops.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

using D = DType;
using List = std::vector<int64_t>;
using Numbers = std::vector<double>;

Tensor F(List dims, Numbers values) { return Make(D::kFloat32, std::move(dims), std::move(values)); }

// 1, 2, 3...
Tensor Counted(List dims) {
  Numbers values;
  for (int64_t i = 0; i < Shape(absl::MakeConstSpan(dims)).num_elements(); ++i) {
    values.push_back(static_cast<double>(i + 1));
  }
  return F(std::move(dims), std::move(values));
}

class ComposedGradients : public testing::Test {
 protected:
  ComposedGradients() : device_(MakeCpuDevice("test", 0, 0, threads_)) { RegisterCpuKernels(kernels_); }

  Output Const(const Tensor& value) {
    return g_.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
  }

  void ExpectValues(const std::vector<Output>& outputs, const std::vector<Numbers>& wanted,
                    double tolerance) {
    const auto found = EvaluateGraph(outputs, {}, *device_, kernels_);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->size(), wanted.size());
    for (size_t k = 0; k < wanted.size(); ++k) {
      const auto values = (*found)[k].flat<float>();
      ASSERT_EQ(values.size(), wanted[k].size());
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], wanted[k][i], tolerance) << "element " << i << " of gradient " << k;
      }
    }
  }

  // The gradients with respect to y_backprop, x and scale of what FusedBatchNorm's gradients with respect to
  // x and scale give, when 1, 2, 3... flow into them.
  absl::StatusOr<std::vector<Output>> SecondDerivatives(const Tensor& x, const Tensor& y_backprop,
                                                        const std::string& format, bool is_training) {
    const List dims(x.shape().dims().begin(), x.shape().dims().end());
    const Output xs[] = {Const(y_backprop), Const(x), Const(F({2}, {2, 0.5}))};
    const Tensor mean = is_training ? F({0}, {}) : F({2}, {0.5, 0.25});
    const Tensor variance = is_training ? F({0}, {}) : F({2}, {2, 0.75});
    Node* const norm =
        g_.AddNode("FusedBatchNormV3", {xs[1], xs[2], Const(F({2}, {1, -1})), Const(mean), Const(variance)},
                   {{"epsilon", 0.125f}, {"is_training", is_training}, {"data_format", format}});
    if (norm == nullptr) return g_.status();
    auto first = AddGradients(g_, {norm->output(0)}, {xs[1], xs[2]}, {xs[0]});
    if (!first.ok()) return first.status();
    Tensor flowing = Counted(dims);
    if (format == "NCHW") flowing = F(dims, {1, 3, 2, 4, 5, 7, 6, 8});
    return AddGradients(g_, *first, xs, {Const(flowing), Const(F({2}, {1, 2}))});
  }

  // A variable of that value, and `gather` of it; the gradient of the variable when 1, 2, 3... flow into the
  // result.
  absl::StatusOr<std::vector<Output>> GradientOfGather(const std::string& gather, const Tensor& value,
                                                       const Tensor& indices, AttrMap attrs, List result) {
    const Output handle =
        g_.AddOp("VarHandleOp", {}, {{"dtype", D::kFloat32}, {"shape", PartialShape(value.shape())}});
    Node* const assignment = g_.AddNode("AssignVariableOp", {handle, Const(value)});
    const auto after_assignment = g_.ControlScope({assignment});
    attrs["dtype"] = D::kFloat32;
    const Output y = g_.AddOp(gather, {handle, Const(indices)}, attrs);
    if (!g_.ok()) return g_.status();
    return AddGradients(g_, {y}, {handle}, {Const(Counted(std::move(result)))});
  }

  ThreadPool threads_{1};
  std::unique_ptr<Device> device_;
  KernelRegistry kernels_;
  GraphBuilder g_{StandardOps()};
};

const Numbers kImage = {1, 2, -1, 0.5, 3, -2, 0, 1.5}, kFlow = {0.5, 1, -0.25, 2, 1, -1, 0.75, 0.25};

TEST_F(ComposedGradients, SecondDerivativeOfBatchNormInTraining) {
  const auto found = SecondDerivatives(F({2, 1, 2, 2}, kImage), F({2, 1, 2, 2}, kFlow), "NHWC", true);
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found,
               {{-3.8167223930358887, 1.1384198665618896, -2.2171647548675537, -0.3162277936935425,
                 2.4748711585998535, -3.1622776985168457, 3.5590147972106934, 2.34008526802063},
                {0.8745929002761841, 0.21266329288482666, 0.5293428897857666, 2.1345374584198,
                 -0.8284797668457031, -0.9763531684875488, -0.5754562616348267, -1.3708473443984985},
                {1.1552361249923706, -2.2452173233032227}},
               1e-5);
}

TEST_F(ComposedGradients, SecondDerivativeOfBatchNormWithAverages) {
  const auto found = SecondDerivatives(F({2, 1, 2, 2}, kImage), F({2, 1, 2, 2}, kFlow), "NHWC", false);
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found,
               {{1.714985966682434, 4.810702323913574, 3.086974620819092, 2.672612428665161,
                 8.574930191040039, -1.6035676002502441, 9.260924339294434, 6.948792457580566},
                {0.3429971933364868, 2.138089895248413, -0.1714985966682434, 4.276179790496826,
                 0.6859943866729736, -2.138089895248413, 0.5144957900047302, 0.5345224738121033},
                {6.8599443435668945, 6.414270401000977}},
               1e-5);
}

// The same image with its channels first: every pair of pixels and channels changes places.
TEST_F(ComposedGradients, SecondDerivativeOfBatchNormWithChannelsFirst) {
  const auto moved = [](const Numbers& v) { return Numbers{v[0], v[2], v[1], v[3], v[4], v[6], v[5], v[7]}; };
  const auto found =
      SecondDerivatives(F({2, 2, 1, 2}, moved(kImage)), F({2, 2, 1, 2}, moved(kFlow)), "NCHW", true);
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found,
               {{-3.8167223930358887, -2.2171647548675537, 1.1384198665618896, -0.3162277936935425,
                 2.4748711585998535, 3.5590147972106934, -3.1622776985168457, 2.34008526802063},
                {0.8745929002761841, 0.5293428897857666, 0.21266329288482666, 2.1345374584198,
                 -0.8284797668457031, -0.5754562616348267, -0.9763531684875488, -1.3708473443984985},
                {1.1552361249923706, -2.2452173233032227}},
               1e-5);
}

// Of the maxima of x^2, squared.
TEST_F(ComposedGradients, SecondDerivativeOfMaxPool) {
  const Output x = Const(F({1, 3, 3, 1}, {1, 4, 0, 3, 2, 5, 0, 7, 6}));
  const Output maxima =
      g_.AddOp("MaxPool", {g_.AddOp("Square", {x})},
               {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}});
  const auto first = AddGradients(g_, {g_.AddOp("Square", {maxima})}, {x});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = AddGradients(g_, *first, {x});
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectValues({first->front(), second->front()},
               {{0, 256, 0, 0, 0, 500, 0, 2744, 0}, {0, 192, 0, 0, 0, 300, 0, 1176, 0}}, 0);
}

// TensorFlow's MaxPoolGradGrad knows no paddings of its own either.
TEST_F(ComposedGradients, SecondDerivativeOfMaxPoolWithExplicitPadding) {
  const Output x = Const(F({1, 2, 2, 1}, {1, 4, 0, 3}));
  const Output maxima = g_.AddOp("MaxPool", {x},
                                 {{"ksize", List{1, 2, 2, 1}},
                                  {"strides", List{1, 1, 1, 1}},
                                  {"padding", "EXPLICIT"},
                                  {"explicit_paddings", List{0, 0, 1, 1, 1, 1, 0, 0}}});
  const auto first = AddGradients(g_, {g_.AddOp("Square", {maxima})}, {x});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = AddGradients(g_, *first, {x});
  EXPECT_THAT(second.status().message(), testing::HasSubstr("EXPLICIT"));
}

// tf.raw_ops.RandomGamma(shape=[2], alpha=[0.5, 1, 2.5], seed=7, seed2=11): all samples of an alpha move with
// it.
TEST_F(ComposedGradients, SamplesOfGammaDistributions) {
  const Output alpha = Const(F({3}, {0.5, 1, 2.5}));
  const Output samples = g_.AddOp("RandomGamma", {Const(Ints({2})), alpha}, {{"seed", 7}, {"seed2", 11}});
  const auto found = AddGradients(g_, {samples}, {alpha}, {Const(Counted({2, 3}))});
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found, {{4.190113544464111, 9.003335952758789, 9.209882736206055}}, 2e-5);
}

// The same of a shape that only the step knows.
TEST_F(ComposedGradients, SamplesOfUnknownShape) {
  const Output shape = g_.AddOp("PlaceholderWithDefault", {Const(Ints({2, 2}))}, {{"shape", PartialShape()}});
  const Output alpha = Const(F({}, {1.5}));
  const Output samples = g_.AddOp("RandomGamma", {shape, alpha}, {{"seed", 7}, {"seed2", 11}});
  const auto found = AddGradients(g_, {samples}, {alpha}, {Const(Counted({2, 2}))});
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found, {{9.688989639282227}}, 2e-5);
}

// How many dimensions are asked for is only a promise: none of them is listed before the step.
TEST_F(ComposedGradients, SamplesOfAShapeThatPromisesTooManyDimensions) {
  const AttrMap promise = {{"dtype", D::kInt32}, {"shape", PartialShape({int64_t{1} << 46})}};
  const Output samples = g_.AddOp("RandomGamma", {g_.AddOp("Placeholder", {}, promise), Const(F({}, {1.5}))});
  const Output alpha = samples.node->input(1);
  const auto found = AddGradients(g_, {samples}, {alpha});
  EXPECT_TRUE(found.ok()) << found.status();
}

TEST_F(ComposedGradients, GatherAtCoordinates) {
  const auto found = GradientOfGather("ResourceGatherNd", Counted({2, 4, 3}),
                                      Make(D::kInt32, {3, 2}, {1, 3, 0, 1, 1, 3}), {}, {3, 3});
  ASSERT_TRUE(found.ok()) << found.status();
  Numbers wanted(24, 0);
  for (int i = 0; i < 3; ++i) wanted[3 + i] = 4 + i;         // [0, 1]
  for (int i = 0; i < 3; ++i) wanted[21 + i] = 8 + 2.0 * i;  // [1, 3], twice
  ExpectValues(*found, {wanted}, 0);
}

// TensorFlow's gradient forgets the batch and fails in the step; this is GatherV2's.
TEST_F(ComposedGradients, GatherInBatches) {
  const Tensor params = Counted({2, 4, 3}), indices = Make(D::kInt32, {2, 2}, {3, 0, 1, 1});
  const auto found = GradientOfGather("ResourceGather", params, indices, {{"batch_dims", 1}}, {2, 2, 3});
  ASSERT_TRUE(found.ok()) << found.status();
  Numbers wanted(24, 0);
  for (int i = 0; i < 3; ++i) {
    wanted[9 + i] = 1 + i;                // [0, 3]
    wanted[0 + i] = 4 + i;                // [0, 0]
    wanted[12 + 3 + i] = 7 + i + 10 + i;  // [1, 1], twice
  }
  ExpectValues(*found, {wanted}, 0);
}

TEST_F(ComposedGradients, GatherOfNothingInBatches) {
  const auto found = GradientOfGather("ResourceGather", Tensor(D::kFloat32, {0, 4, 3}),
                                      Tensor(D::kInt64, {0, 2}), {{"batch_dims", 1}}, {0, 2, 3});
  ASSERT_TRUE(found.ok()) << found.status();
  ExpectValues(*found, {{}}, 0);
}

}  // namespace
}  // namespace weir::conformance
