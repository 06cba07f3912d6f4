// Sessions on CUDA devices, usually without a GPU: CUDA is the recording stand-in, on which memory of the
// device cannot be touched and work happens only when somebody waits for it. Kernels are the bodies of the
// real ones, and plain loops in the place of reductions, softmax and products of matrices. So these tests say
// that sessions, kernels and launches are right, and nothing about what a GPU computes; unless they are run
// on one (kernels/cuda/test_cuda.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/runtime.h"
#include "session/test_cuda_models.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// What sums in another order may change, and what steps make of it.
constexpr double kClose = 2e-6;

class CudaTrainingTest : public CudaSessionTest {
 protected:
  // Trains on both for some steps, and compares losses and variables.
  void TrainOnBoth(Place& cpu, const Mlp& on_cpu, Place& gpu, const Mlp& on_gpu, int steps) {
    ASSERT_TRUE(cpu.session().Run({}, {}, on_cpu.initializers).ok());
    const auto initialized = gpu.session().Run({}, {}, on_gpu.initializers);
    ASSERT_TRUE(initialized.ok()) << initialized.status();
    double most = 0;
    for (int step = 0; step < steps; ++step) {
      const auto expected = cpu.session().Run(Batch(on_cpu, step), {on_cpu.loss}, {on_cpu.train});
      const auto found = gpu.session().Run(Batch(on_gpu, step), {on_gpu.loss}, {on_gpu.train});
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(found.ok()) << found.status();
      most = std::max(most, Difference((*found)[0], (*expected)[0]));
    }
    const auto expected = cpu.session().Run({}, on_cpu.variables);
    const auto found = gpu.session().Run({}, on_gpu.variables);
    ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
    for (size_t i = 0; i < expected->size(); ++i) {
      most = std::max(most, Difference((*found)[i], (*expected)[i]));
    }
    EXPECT_LT(most, kClose);
    RecordProperty("largest_difference", std::to_string(most * 1e9) + "e-9");
  }
};

std::unique_ptr<Optimizer> Descent() { return std::make_unique<GradientDescent>(0.1); }

class OptimizersTest : public CudaTrainingTest, public ::testing::WithParamInterface<int> {};

TEST_P(OptimizersTest, AnMlpLearnsWhatItLearnsOnTheCpu) {
  const MakeOptimizer make[] = {Descent, [] { return std::make_unique<Momentum>(0.05, 0.9); },
                                [] { return std::make_unique<Adam>(0.01); }};
  Place cpu({.num_threads = 2}), gpu(Gpus(1));
  const Mlp on_cpu = BuildMlp(cpu.g, "/cpu:0", "/cpu:0", make[GetParam()]);
  const Mlp on_gpu = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", make[GetParam()]);
  TrainOnBoth(cpu, on_cpu, gpu, on_gpu, 30);
  EXPECT_THAT(Launches(), IsSupersetOf({"cublasLtMatmul", "BiasAdd_float", "Relu_float", "ReluGrad_float",
                                        "SparseCrossEntropy_float_int32", "ColumnSum_float"}));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizersTest, ::testing::Range(0, 3));

class MlpStepTest : public CudaTrainingTest {
 protected:
  // Of the fourth step: the first ones make plans and constants, and take memory.
  Counts CountsOfStep(Place& place, const Mlp& model, const std::vector<TensorRef>& fetches) {
    EXPECT_TRUE(place.session().Run({}, {}, model.initializers).ok());
    for (int step = 0; step < 4; ++step) {
      cuda_.ClearLog();
      const auto result = place.session().Run(Batch(model, step), fetches, {model.train});
      EXPECT_TRUE(result.ok()) << result.status();
    }
    return CountsOfLog();
  }
};

// In come the features, the labels, and the number of losses by which the gradient of their mean is divided,
// unless a recording has it. The one wait is that of the thread that copies to the host.
TEST_F(MlpStepTest, CopiesWhatIsFedAndFetchedAndWaitsForTheFetches) {
  for (const bool cuda_graphs : {false, true}) {
    RuntimeOptions options = Gpus(1);
    options.cuda_graphs = cuda_graphs;
    Place gpu(options);
    const Mlp model = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", Descent);
    EXPECT_EQ(CountsOfStep(gpu, model, {model.loss}),
              (Counts{.in = cuda_graphs ? 2 : 3, .out = 1, .waits = 1, .allocations = 0}));
  }
}

// Nothing has happened when such a step returns: all of its work is still in the stream.
// A GPU may be through with the steps before by then, and would be given the third one as a graph.
TEST_F(MlpStepTest, WithoutFetchesAStepWaitsForNothing) {
  RuntimeOptions options = Gpus(1);
  options.cuda_graphs = false;
  Place gpu(options);
  const Mlp model = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", Descent);
  EXPECT_EQ(CountsOfStep(gpu, model, {}), (Counts{.in = 3, .out = 0, .waits = 0, .allocations = 0}));
  if (!cuda_.is_stand_in()) return;
  EXPECT_GE(cuda_.stand_in().num_pending(), static_cast<int64_t>(Launches().size()));
}

// Adam's powers of beta are variables of the device, and stay there.
TEST_F(MlpStepTest, AnOptimizersScalarsAreNotWaitedFor) {
  RuntimeOptions options = Gpus(1);
  options.cuda_graphs = false;
  Place gpu(options);
  const Mlp model = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", [] { return std::make_unique<Adam>(0.01); });
  EXPECT_EQ(CountsOfStep(gpu, model, {}), (Counts{.in = 3, .out = 0, .waits = 0, .allocations = 0}));
}

TEST_F(CudaTrainingTest, TheLayersOfAModelMayBeOnTwoDevices) {
  if (const std::string why = cuda_.WhyNot(2); !why.empty()) GTEST_SKIP() << why;
  Place cpu({.num_threads = 2}), gpu(Gpus(2));
  const Mlp on_cpu = BuildMlp(cpu.g, "/cpu:0", "/cpu:0", Descent);
  const Mlp on_gpus = BuildMlp(gpu.g, "/gpu:0", "/gpu:1", Descent);
  TrainOnBoth(cpu, on_cpu, gpu, on_gpus, 30);
  cuda_.ClearLog();
  const auto result = gpu.session().Run(Batch(on_gpus, 1), {on_gpus.loss}, {on_gpus.train});
  ASSERT_TRUE(result.ok()) << result.status();
  const Counts counts = CountsOfLog();
  // The activations of the first layer go by way of the host, and their gradient comes back.
  EXPECT_EQ(counts.in, 5);
  EXPECT_EQ(counts.out, 3);
}

TEST_F(CudaTrainingTest, AClassThatDoesNotExistIsTheCpusErrorAndNothingIsApplied) {
  Place cpu({.num_threads = 2}), gpu(Gpus(1));
  const Mlp on_cpu = BuildMlp(cpu.g, "/cpu:0", "/cpu:0", Descent);
  const Mlp on_gpu = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", Descent);
  std::vector<std::string> messages;
  for (auto [place, model] : {std::pair(&cpu, &on_cpu), std::pair(&gpu, &on_gpu)}) {
    ASSERT_TRUE(place->session().Run({}, {}, model->initializers).ok());
    const auto before = place->session().Run({}, model->variables);
    Feeds feeds = Batch(*model, 0);
    for (auto& [output, tensor] : feeds) {
      if (tensor.dtype() == DType::kInt32) tensor.flat<int32_t>()[7] = 5;
    }
    const absl::Status status = place->session().Run(feeds, {model->loss}, {model->train}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    messages.push_back(std::string(status.message()));
    const auto after = place->session().Run({}, model->variables);
    ASSERT_TRUE(before.ok() && after.ok());
    for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ(Difference((*after)[i], (*before)[i]), 0);
  }
  const std::string text =
      "Received a label value of 5 which is outside the valid range of [0, 5), at example 7";
  EXPECT_THAT(messages[0], HasSubstr(text));
  EXPECT_THAT(messages[1], HasSubstr(text));
}

TEST_F(CudaSessionTest, ALostDeviceIsUnavailableFromThenOn) {
  Place gpu(Gpus(1));
  const Mlp model = BuildMlp(gpu.g, "/gpu:0", "/gpu:0", Descent);
  ASSERT_TRUE(gpu.session().Run({}, {}, model.initializers).ok());
  ASSERT_TRUE(gpu.session().Run(Batch(model, 0), {model.loss}, {model.train}).ok());
  cuda_.LoseDevice(0);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = gpu.session().Run(Batch(model, 1), {model.loss}, {model.train}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("device:GPU:0 ("), HasSubstr(", compute capability "),
                                        HasSubstr(") is lost: cuda")));
    EXPECT_THAT(status.message(), HasSubstr("cudaErrorIllegalAddress"));
  }
  gpu.made.reset();
  if (cuda_.is_stand_in()) cuda_.stand_in().TakeProblems();  // what a lost device has, nobody gives back
}

// One op at a time on both devices.
class OpsTest : public CudaSessionTest {
 protected:
  using Build = std::function<Output(GraphBuilder& g, Output x)>;

  void Compare(const char* what, const Tensor& x, const Build& build, double most = kClose) {
    SCOPED_TRACE(what);
    std::vector<Tensor> results;
    for (const bool on_gpu : {false, true}) {
      Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
      Output fed, y;
      {
        auto scope = place.g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
        fed = Placeholder(place.g, x.dtype(), PartialShape(x.shape()));
        y = build(place.g, fed);
      }
      cuda_.ClearLog();
      const auto result = place.session().Run({{fed, x}}, {y});
      ASSERT_TRUE(result.ok()) << result.status();
      results.push_back((*result)[0]);
      if (on_gpu) counts_ = CountsOfLog();
    }
    EXPECT_LE(Difference(results[1], results[0]), most);
  }

  static Tensor Numbers(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    std::mt19937 random(5);
    for (float& v : tensor.flat<float>()) v = static_cast<float>(random() % 1000) / 300 - 1.5f;
    return tensor;
  }

  Counts counts_;
};

TEST_F(OpsTest, SumsAndMeansOfAnyAxes) {
  const Tensor x = Numbers({3, 4, 5, 6});
  for (const std::vector<int32_t>& axes : std::vector<std::vector<int32_t>>{
           {0}, {1}, {2}, {3}, {0, 1}, {2, 3}, {0, 2}, {1, 3}, {-1, 0}, {0, 1, 2, 3}}) {
    for (const char* op : {"Sum", "Mean"}) {
      Compare(op, x, [&](GraphBuilder& g, Output in) {
        return g.AddOp(op,
                       {in, Const(g, Tensor::FromSpan<int32_t>({static_cast<int64_t>(axes.size())}, axes))},
                       {{"keep_dims", axes.size() == 2}});
      });
      EXPECT_EQ(counts_.out, 1);
      EXPECT_LE(Launches().size(), 2 * axes.size()) << "as many as there are outer elements";
    }
  }
  const Tensor none = Numbers({0, 3});
  Compare("sums of nothing", none,
          [](GraphBuilder& g, Output in) { return Sum(g, in, ConstIntegers(g, {0})); });
}

TEST_F(OpsTest, OperandsOfSeveralShapes) {
  const Tensor x = Numbers({2, 3, 4});
  for (const Shape& shape :
       {Shape({2, 3, 4}), Shape({4}), Shape({3, 1}), Shape({2, 1, 4}), Shape({}), Shape({5, 1, 1, 1})}) {
    Tensor operand = Numbers(shape);
    for (const char* op : {"AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum"}) {
      Compare(
          op, x,
          [&](GraphBuilder& g, Output in) {
            return g.AddOp(op, {in, Const(g, operand)});
          },
          0);
      Compare(
          op, x,
          [&](GraphBuilder& g, Output in) {
            return g.AddOp(op, {Const(g, operand), in});
          },
          0);
    }
  }
}

TEST_F(OpsTest, WhatRepeatsElements) {
  const Tensor x = Numbers({2, 1, 3});
  Compare(
      "Tile", x,
      [](GraphBuilder& g, Output in) {
        return g.AddOp("Tile", {in, ConstIntegers(g, {1, 3, 2})});
      },
      0);
  Compare(
      "BroadcastTo", x,
      [](GraphBuilder& g, Output in) {
        return g.AddOp("BroadcastTo", {in, ConstIntegers(g, {4, 2, 5, 3})});
      },
      0);
  Compare(
      "Fill", Numbers({}),
      [](GraphBuilder& g, Output in) {
        return g.AddOp("Fill", {ConstIntegers(g, {4, 2}), in});
      },
      0);
  Compare(
      "ZerosLike", x, [](GraphBuilder& g, Output in) { return g.AddOp("ZerosLike", {in}); }, 0);
  Compare(
      "AddN", x,
      [](GraphBuilder& g, Output in) {
        return g.AddOp("AddN", {std::vector<Output>{in, Relu(g, in), in}});
      },
      0);
}

TEST_F(OpsTest, ProductsOfMatrices) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kHalf, DType::kFloat64}) {
    for (int choice = 0; choice < 4; ++choice) {
      const bool transpose_a = (choice & 1) != 0, transpose_b = (choice & 2) != 0;
      // Of 16 bits: a sum in another order may be rounded the other way.
      const double most = dtype == DType::kBfloat16 ? 1e-2 : dtype == DType::kHalf ? 1e-3 : kClose;
      Compare(
          "MatMul", Numbers(transpose_a ? Shape({7, 3}) : Shape({3, 7})),
          [&](GraphBuilder& g, Output in) {
            const Output b = Const(g, Numbers(transpose_b ? Shape({5, 7}) : Shape({7, 5})));
            const auto as = [&](Output value, DType to) { return g.AddOp("Cast", {value}, {{"DstT", to}}); };
            const Output product = g.AddOp("MatMul", {as(in, dtype), as(b, dtype)},
                                           {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
            return as(product, DType::kFloat32);
          },
          most);
    }
  }
  Compare(
      "no inner elements", Numbers({3, 0}),
      [&](GraphBuilder& g, Output in) {
        return g.AddOp("MatMul", {in, Const(g, Numbers({0, 4}))});
      },
      0);
}

TEST_F(OpsTest, BiasesOfBothFormats) {
  const Tensor x = Numbers({2, 3, 4, 3});
  for (const char* format : {"NHWC", "NCHW"}) {
    Compare(
        "BiasAdd", x,
        [&](GraphBuilder& g, Output in) {
          return g.AddOp("BiasAdd", {in, Const(g, Numbers({3}))}, {{"data_format", std::string(format)}});
        },
        0);
    Compare("BiasAddGrad", x, [&](GraphBuilder& g, Output in) {
      return g.AddOp("BiasAddGrad", {in}, {{"data_format", std::string(format)}});
    });
  }
}

// The parts are infinite as half, and the whole is 0.
TEST_F(OpsTest, PartsOfSumsOfHalfAreFloats) {
  Tensor x = Tensor(DType::kFloat32, Shape({2, 3, 1, 4}));
  for (int64_t i = 0; i < x.num_elements(); ++i) x.flat<float>()[i] = i < 12 ? 20000.0f : -20000.0f;
  const auto in_half = [](GraphBuilder& g, Output in, const std::function<Output(Output)>& op) {
    const Output y = op(g.AddOp("Cast", {in}, {{"DstT", DType::kHalf}}));
    return g.AddOp("Cast", {y}, {{"DstT", DType::kFloat32}});
  };
  Compare(
      "BiasAddGrad", x,
      [&](GraphBuilder& g, Output in) {
        return in_half(g, in, [&](Output half) {
          return g.AddOp("BiasAddGrad", {half}, {{"data_format", std::string("NCHW")}});
        });
      },
      0);
  Compare(
      "Sum", x,
      [&](GraphBuilder& g, Output in) {
        return in_half(g, in, [&](Output half) {
          return g.AddOp("Sum", {half, Const(g, Tensor::Vector<int32_t>({0, 2, 3}))});
        });
      },
      0);
}

TEST_F(OpsTest, CrossEntropyOfDistributions) {
  for (const int output : {0, 1}) {
    for (const Shape& labels : {Shape({6, 5}), Shape({1, 5})}) {
      Compare("SoftmaxCrossEntropyWithLogits", Numbers({6, 5}), [&](GraphBuilder& g, Output in) {
        return g.AddNode("SoftmaxCrossEntropyWithLogits", {in, Const(g, Numbers(labels))})->output(output);
      });
    }
  }
}

// It is right, and slow: there and back.
TEST_F(OpsTest, AnOpWithoutAKernelComputesOnTheHost) {
  ASSERT_THAT(NamesOfCudaOps(), Not(Contains("Softplus")));
  Compare(
      "Softplus", Numbers({2, 3}),
      [](GraphBuilder& g, Output in) { return Relu(g, g.AddOp("Softplus", {Relu(g, in)})); }, 0);
  EXPECT_EQ(counts_.in, 2);
  EXPECT_EQ(counts_.out, 2);
}

TEST_F(CudaSessionTest, AnIntegerVariableCountsOnTheDevice) {
  Place gpu(Gpus(1));
  ModelVariable steps;
  Node *add = nullptr, *subtract = nullptr;
  {
    auto scope = gpu.g.DeviceScope("/gpu:0");
    steps = MakeVariable(gpu.g, "steps", Tensor::Scalar(int64_t{40}));
    add = gpu.g.AddNode("AssignAddVariableOp", {steps.handle, Const(gpu.g, int64_t{3})});
    subtract = gpu.g.AddNode("AssignSubVariableOp", {steps.handle, Const(gpu.g, int64_t{1})});
  }
  ASSERT_TRUE(gpu.session().Run({}, {}, {steps.initializer}).ok());
  for (Node* const node : {add, subtract}) ASSERT_TRUE(gpu.session().Run({}, {}, {node}).ok());
  const auto result = gpu.session().Run({}, {steps.value});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<int64_t>(), 42);
}

TEST_F(CudaSessionTest, ARuntimeHasGpusOrFakeOnes) {
  RuntimeOptions both = Gpus(1);
  both.num_fake_gpus = 2;
  EXPECT_EQ(Runtime::Create(both).status(),
            absl::InvalidArgumentError(
                "a runtime has GPUs or fake ones, not both: num_gpus is 1 and num_fake_gpus is 2"));
  EXPECT_EQ(Runtime::Create({.num_gpus = 65}).status().message(), "a runtime has 0 to 64 GPUs, got 65");
  if (!cuda_.is_stand_in()) return;
  const absl::Status status = Runtime::Create(Gpus(3)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "num_gpus is 3: this machine has 2 that Weir computes on");
}

}  // namespace
}  // namespace weir
