// Convolutional networks on CUDA devices, without a GPU: CUDA is the recording stand-in (see
// cuda_training_test.cc), convolutions are the CPU's plain loops in the place of cuDNN, and batch
// normalization and pooling are the bodies of the GPU's kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "ops/layers/layers.h"
#include "ops/standard_ops.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/test_cuda_models.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// What sums in another order may change.
constexpr double kClose = 2e-6;

using Integers = std::vector<int64_t>;

Tensor Numbers(const Shape& shape, uint32_t seed = 5) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(seed);
  for (float& v : tensor.flat<float>()) v = static_cast<float>(random() % 1000) / 300 - 1.5f;
  return tensor;
}

// One op at a time on both devices.
class CudaLayersTest : public CudaSessionTest {
 protected:
  using Build = std::function<std::vector<Output>(GraphBuilder& g, const std::vector<Output>& inputs)>;

  absl::StatusOr<std::vector<Tensor>> RunOn(bool on_gpu, const std::vector<Tensor>& inputs, DType dtype,
                                            const Build& build) {
    Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
    Feeds feeds;
    std::vector<TensorRef> fetches;
    {
      auto scope = place.g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
      std::vector<Output> given;
      for (const Tensor& tensor : inputs) {
        const Output fed = Placeholder(place.g, tensor.dtype(), PartialShape(tensor.shape()));
        feeds.push_back({fed, tensor});
        given.push_back(
            tensor.dtype() == dtype || tensor.dtype() != DType::kFloat32 ? fed : Cast(place.g, fed, dtype));
      }
      for (const Output& output : build(place.g, given)) {
        fetches.push_back(output.dtype() == DType::kFloat32 ? output
                                                            : Cast(place.g, output, DType::kFloat32));
      }
    }
    cuda_.ClearLog();
    auto result = place.session().Run(feeds, fetches);
    if (on_gpu) counts_ = CountsOfLog();
    return result;
  }

  // `inputs` are cast to the dtype before, and what comes out is cast back.
  void Compare(const std::vector<Tensor>& inputs, const Build& build, double most = kClose,
               DType dtype = DType::kFloat32) {
    const auto expected = RunOn(false, inputs, dtype, build);
    const auto found = RunOn(true, inputs, dtype, build);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->size(), expected->size());
    for (size_t i = 0; i < found->size(); ++i) {
      EXPECT_LE(Difference((*found)[i], (*expected)[i]), most) << "output " << i;
    }
    EXPECT_EQ(counts_.out, static_cast<int64_t>(found->size()));  // all else stays there
  }

  // Both refuse it in the same words.
  void ExpectSameError(const std::vector<Tensor>& inputs, const Build& build, const std::string& text) {
    for (const bool on_gpu : {false, true}) {
      const absl::Status status = RunOn(on_gpu, inputs, DType::kFloat32, build).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(status.message(), HasSubstr(text));
    }
  }

  Counts counts_;
};

// A sum of 16-bit numbers in another order may be rounded the other way.
double ClosenessOf(DType dtype) {
  return dtype == DType::kBfloat16 ? 1e-2 : dtype == DType::kHalf ? 2e-3 : kClose;
}

const DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};

struct ConvCase {
  std::string padding = "SAME";
  Integers stride = {1, 1}, dilation = {1, 1};
  int64_t groups = 1;
  bool channels_first = false;
  Integers explicit_padding;  // of height and width, before and after each
};

Integers InLayout(const Integers& spatial, bool channels_first) {
  if (channels_first) return {1, 1, spatial[0], spatial[1]};
  return {1, spatial[0], spatial[1], 1};
}

AttrMap AttrsOf(const ConvCase& c) {
  AttrMap attrs = {{"strides", InLayout(c.stride, c.channels_first)},
                   {"dilations", InLayout(c.dilation, c.channels_first)},
                   {"padding", c.padding},
                   {"data_format", std::string(c.channels_first ? "NCHW" : "NHWC")}};
  if (c.padding == "EXPLICIT") {
    const Integers& p = c.explicit_padding;
    attrs["explicit_paddings"] = c.channels_first ? Integers{0, 0, 0, 0, p[0], p[1], p[2], p[3]}
                                                  : Integers{0, 0, p[0], p[1], p[2], p[3], 0, 0};
  }
  return attrs;
}

TEST_F(CudaLayersTest, ConvolutionsAndTheirGradients) {
  const std::vector<ConvCase> cases = {
      {},
      {.padding = "VALID"},
      {.stride = {2, 2}},
      {.stride = {2, 1}, .channels_first = true},
      {.padding = "VALID", .dilation = {2, 1}},
      {.stride = {1, 2}, .groups = 2},
      {.groups = 2, .channels_first = true},
      {.padding = "EXPLICIT", .stride = {2, 1}, .explicit_padding = {0, 1, 2, 1}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const ConvCase& c = cases[i];
    SCOPED_TRACE(i);
    const Shape image = c.channels_first ? Shape({3, 4, 7, 8}) : Shape({3, 7, 8, 4});
    const Tensor x = Numbers(image), filter = Numbers(Shape({3, 2, 4 / c.groups, 6}), 6);
    // The gradient of the output is the output.
    Compare({x, filter}, [&](GraphBuilder& g, const std::vector<Output>& in) {
      const AttrMap attrs = AttrsOf(c);
      const Output y = g.AddOp("Conv2D", {in[0], in[1]}, attrs);
      const Output sizes = ConstIntegers(g, {image.dim(0), image.dim(1), image.dim(2), image.dim(3)});
      const Output filter_sizes = ConstIntegers(g, {3, 2, 4 / c.groups, 6});
      return std::vector<Output>{y, g.AddOp("Conv2DBackpropInput", {sizes, in[1], y}, attrs),
                                 g.AddOp("Conv2DBackpropFilter", {in[0], filter_sizes, y}, attrs)};
    });
  }
}

TEST_F(CudaLayersTest, ConvolutionsOfEveryDType) {
  for (const DType dtype : kFloats) {
    SCOPED_TRACE(DTypeName(dtype));
    Compare(
        {Numbers({2, 6, 6, 3}), Numbers({3, 3, 3, 4}, 6)},
        [&](GraphBuilder& g, const std::vector<Output>& in) {
          const AttrMap attrs = AttrsOf({.stride = {2, 2}});
          const Output y = g.AddOp("Conv2D", {in[0], in[1]}, attrs);
          return std::vector<Output>{
              y, g.AddOp("Conv2DBackpropInput", {ConstIntegers(g, {2, 6, 6, 3}), in[1], y}, attrs),
              g.AddOp("Conv2DBackpropFilter", {in[0], ConstIntegers(g, {3, 3, 3, 4}), y}, attrs)};
        },
        ClosenessOf(dtype), dtype);
  }
}

TEST_F(CudaLayersTest, DepthwiseConvolutionsAndTheirGradients) {
  for (const int64_t multiplier : {1, 2}) {
    SCOPED_TRACE(multiplier);
    Compare({Numbers({2, 6, 6, 3}), Numbers({3, 3, 3, multiplier}, 6)},
            [&](GraphBuilder& g, const std::vector<Output>& in) {
              const AttrMap attrs = AttrsOf({.stride = {2, 2}});
              const Output y = g.AddOp("DepthwiseConv2dNative", {in[0], in[1]}, attrs);
              const Output sizes = ConstIntegers(g, {2, 6, 6, 3});
              const Output filter_sizes = ConstIntegers(g, {3, 3, 3, multiplier});
              return std::vector<Output>{
                  y, g.AddOp("DepthwiseConv2dNativeBackpropInput", {sizes, in[1], y}, attrs),
                  g.AddOp("DepthwiseConv2dNativeBackpropFilter", {in[0], filter_sizes, y}, attrs)};
            });
  }
}

TEST_F(CudaLayersTest, ConvolutionsOfNothingAreZeros) {
  Compare(
      {Numbers({2, 4, 4, 0}), Numbers({3, 3, 0, 5})},
      [&](GraphBuilder& g, const std::vector<Output>& in) {
        return std::vector<Output>{g.AddOp("Conv2D", {in[0], in[1]}, AttrsOf({}))};
      },
      0);
}

TEST_F(CudaLayersTest, AConvolutionThatDoesNotFitIsTheCpusError) {
  ExpectSameError(
      {Numbers({2, 4, 4, 3}), Numbers({2, 2, 3, 5}), Numbers({2, 3, 4, 5})},
      [&](GraphBuilder& g, const std::vector<Output>& in) {
        // Of unknown shape, so that it is the kernel that finds it.
        const Output dy = PlaceholderWithDefault(g, in[2], PartialShape());
        return std::vector<Output>{
            g.AddOp("Conv2DBackpropFilter", {in[0], ConstIntegers(g, {2, 2, 3, 5}), dy}, AttrsOf({}))};
      },
      "out_backprop must be [2,4,4,5] for the input [2,4,4,3] and the filter [2,2,3,5], is [2,3,4,5]");
}

// The outputs that somebody may look at, and those that the gradient takes.
std::vector<Output> OutputsOf(Node* node, int count) {
  std::vector<Output> outputs;
  for (int i = 0; i < count; ++i) outputs.push_back(node->output(i));
  return outputs;
}

TEST_F(CudaLayersTest, BatchNormalizationInEveryMode) {
  struct Case {
    DType dtype = DType::kFloat32;
    bool is_training = true;
    const char* format = "NHWC";
    float average_factor = 1;
  };
  for (const Case& c : std::vector<Case>{{},
                                         {.is_training = false},
                                         {.format = "NCHW"},
                                         {.average_factor = 0.25f},
                                         {.is_training = false, .format = "NCHW"},
                                         {.dtype = DType::kHalf},
                                         {.dtype = DType::kBfloat16},
                                         {.dtype = DType::kBfloat16, .is_training = false}}) {
    SCOPED_TRACE(testing::Message() << DTypeName(c.dtype) << " " << c.is_training << " " << c.format << " "
                                    << c.average_factor);
    const int64_t channels = 5;
    const Shape shape = c.format[1] == 'C' ? Shape({4, channels, 6, 7}) : Shape({4, 6, 7, channels});
    Tensor variance = Numbers({channels}, 9);
    for (float& v : variance.flat<float>()) v = 0.2f + v * v;
    Compare(
        {Numbers(shape), Numbers({channels}, 6), Numbers({channels}, 7), Numbers({channels}, 8), variance},
        [&](GraphBuilder& g, const std::vector<Output>& in) {
          const auto as_float = [&](Output value) {
            return value.dtype() == DType::kFloat32 ? value : Cast(g, value, DType::kFloat32);
          };
          const AttrMap attrs = {
              {"is_training", c.is_training}, {"epsilon", 0.01f}, {"data_format", std::string(c.format)}};
          AttrMap forward = attrs;
          forward["exponential_avg_factor"] = c.average_factor;
          Node* const y =
              g.AddNode("FusedBatchNormV3",
                        {in[0], as_float(in[1]), as_float(in[2]), as_float(in[3]), as_float(in[4])}, forward);
          // A gradient that does not add up to nothing, as y itself would.
          const Output dy = Relu(g, y->output(0));
          Node* const dx =
              g.AddNode("FusedBatchNormGradV3",
                        {dy, in[0], as_float(in[1]), y->output(3), y->output(4), y->output(5)}, attrs);
          std::vector<Output> all = OutputsOf(y, 5);
          for (const Output& output : OutputsOf(dx, 3)) all.push_back(output);
          return all;
        },
        ClosenessOf(c.dtype), c.dtype);
  }
}

TEST_F(CudaLayersTest, PoolsOfEveryKindAndDType) {
  struct Case {
    const char* padding = "VALID";
    Integers window = {2, 2}, stride = {2, 2};
    bool channels_first = false;
    DType dtype = DType::kFloat32;
  };
  for (const Case& c : std::vector<Case>{{},
                                         {.padding = "SAME", .window = {3, 2}, .stride = {2, 1}},
                                         {.window = {3, 3}, .stride = {1, 2}},
                                         {.padding = "SAME", .window = {3, 3}, .channels_first = true},
                                         {.stride = {3, 3}},
                                         {.padding = "SAME", .window = {3, 3}, .dtype = DType::kFloat64},
                                         {.padding = "SAME", .window = {3, 3}, .dtype = DType::kHalf},
                                         {.padding = "SAME", .window = {3, 3}, .dtype = DType::kBfloat16}}) {
    SCOPED_TRACE(testing::Message() << c.padding << " " << c.window[0] << " " << c.stride[0] << " "
                                    << DTypeName(c.dtype));
    const Shape shape = c.channels_first ? Shape({2, 3, 7, 8}) : Shape({2, 7, 8, 3});
    Compare(
        {Numbers(shape)},
        [&](GraphBuilder& g, const std::vector<Output>& in) {
          const AttrMap attrs = {{"ksize", InLayout(c.window, c.channels_first)},
                                 {"strides", InLayout(c.stride, c.channels_first)},
                                 {"padding", std::string(c.padding)},
                                 {"data_format", std::string(c.channels_first ? "NCHW" : "NHWC")}};
          const Output largest = g.AddOp("MaxPool", {in[0]}, attrs);
          const Output mean = g.AddOp("AvgPool", {in[0]}, attrs);
          const Output sizes = ConstIntegers(g, {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3)});
          return std::vector<Output>{largest, mean, g.AddOp("MaxPoolGrad", {in[0], largest, mean}, attrs),
                                     g.AddOp("AvgPoolGrad", {sizes, mean}, attrs)};
        },
        c.dtype == DType::kFloat64 ? kClose : ClosenessOf(c.dtype), c.dtype);
  }
}

// Normalizing divides by deviations that are small in places, so a difference in the last digit grows from
// step to step more than in cuda_training_test.cc.
constexpr double kCloseAfterSteps = 2e-5;
constexpr int kSteps = 25;

TEST_F(CudaLayersTest, AConvolutionalNetworkLearnsWhatItLearnsOnTheCpu) {
  Place cpu({.num_threads = 2}), gpu(Gpus(1));
  const ConvNet on_cpu = ConvNetBuilder(cpu.g).Build("/cpu:0"),
                on_gpu = ConvNetBuilder(gpu.g).Build("/gpu:0");
  ASSERT_TRUE(cpu.session().Run({}, {}, on_cpu.initializers).ok());
  const auto initialized = gpu.session().Run({}, {}, on_gpu.initializers);
  ASSERT_TRUE(initialized.ok()) << initialized.status();
  double most = 0;
  for (int step = 0; step < kSteps; ++step) {
    const auto expected = cpu.session().Run(Batch(on_cpu, step), {on_cpu.loss}, {on_cpu.train});
    const auto found = gpu.session().Run(Batch(on_gpu, step), {on_gpu.loss}, {on_gpu.train});
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(found.ok()) << found.status();
    most = std::max(most, Difference((*found)[0], (*expected)[0]));
    if (step == 0) EXPECT_LT(most, kClose);
  }
  const auto expected = cpu.session().Run({}, on_cpu.variables);
  const auto found = gpu.session().Run({}, on_gpu.variables);
  ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
  ASSERT_GT(expected->size(), 15u);
  for (size_t i = 0; i < expected->size(); ++i) {
    most = std::max(most, Difference((*found)[i], (*expected)[i]));
  }
  std::printf("the largest difference after %d steps: %.3g\n", kSteps, most);
  EXPECT_LT(most, kCloseAfterSteps);
  EXPECT_THAT(Launches(), IsSupersetOf({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter",
                                        "BatchMoments_float", "BatchBackprop_float", "MaxPool_float",
                                        "MaxPoolGrad_float", "AvgPool_float", "AvgPoolGrad_float"}));
}

// In come the images, the labels, and two numbers by which the gradients of means are divided: of the pixels
// and of the losses; recordings of whole steps would have them. The one wait is that of the thread that
// copies the loss to the host.
TEST_F(CudaLayersTest, AStepOfAConvolutionalNetworkCopiesWhatIsFedAndFetched) {
  RuntimeOptions options = Gpus(1);
  options.cuda_graphs = false;
  Place gpu(options);
  const ConvNet net = ConvNetBuilder(gpu.g).Build("/gpu:0");
  ASSERT_TRUE(gpu.session().Run({}, {}, net.initializers).ok());
  for (int step = 0; step < 4; ++step) {  // the first ones make plans and constants, and take memory
    cuda_.ClearLog();
    const auto result = gpu.session().Run(Batch(net, step), {net.loss}, {net.train});
    ASSERT_TRUE(result.ok()) << result.status();
  }
  EXPECT_EQ(CountsOfLog(), (Counts{.in = 4, .out = 1, .waits = 1, .allocations = 0}));
  // Without fetches nothing is waited for.
  for (int step = 0; step < 4; ++step) {
    cuda_.ClearLog();
    ASSERT_TRUE(gpu.session().Run(Batch(net, step), {}, {net.train}).ok());
  }
  EXPECT_EQ(CountsOfLog(), (Counts{.in = 4, .out = 0, .waits = 0, .allocations = 0}));
}

TEST_F(CudaLayersTest, TheOpsOfSuchNetworksComputeOnTheGpu) {
  for (const char* op : {"Conv2D", "FusedBatchNormV3", "FusedBatchNormGradV3", "MaxPool", "AvgPoolGrad"}) {
    EXPECT_THAT(NamesOfCudaOps(), Contains(op));
  }
}

}  // namespace
}  // namespace weir
