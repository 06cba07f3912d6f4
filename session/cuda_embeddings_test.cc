// Sessions that train tables of embeddings on recorded GPUs, as Wide & Deep does: a step reads some rows and
// updates these. What they learn is what they learn on the CPU. Plain loops stand in for reductions, sorts
// and products of matrices.
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

#include "ops/embedding.h"
#include "ops/standard_ops.h"
#include "ops/training/adagrad.h"
#include "ops/training/ftrl.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// What sums in another order may change, and what steps make of it.
constexpr double kClose = 2e-6;
constexpr int64_t kRows = 11, kSlots = 3, kNumbers = 4, kExamples = 24;

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

// A vector and a weight for each id, a layer over the vectors and some numbers, and the probability of a
// click.
struct Clicks {
  Clicks(GraphBuilder& g, const std::string& device, const MakeOptimizer& make) {
    auto scope = g.DeviceScope(device);
    ids = Placeholder(g, DType::kInt64, {-1, kSlots});
    numbers = Placeholder(g, DType::kFloat32, {-1, kNumbers});
    labels = Placeholder(g, DType::kFloat32, {-1, 1});
    std::vector<Output> vectors, weights;
    for (int slot = 0; slot < kSlots; ++slot) {
      const ModelVariable table = MakeVariable(g, "table", Values(Shape({kRows, 5})));
      const ModelVariable weight = MakeVariable(g, "weight", Values(Shape({kRows, 1})));
      const Output column =
          StridedSlice(g, ids, ConstIntegers(g, {0, slot}), ConstIntegers(g, {0, slot + 1}),
                       ConstIntegers(g, {1, 1}), {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
      vectors.push_back(EmbeddingLookup(g, table, column));
      weights.push_back(EmbeddingLookup(g, weight, column));
    }
    vectors.push_back(numbers);
    const Output hidden = Dense(g, ConcatV2(g, vectors, Const(g, 1)), 5 * kSlots + kNumbers, 6);
    const Output logits = AddV2(g, Dense(g, Relu(g, hidden), 6, 1), AddN(g, weights));
    loss = ReduceMean(g, SigmoidCrossEntropyWithLogits(g, logits, labels));
    optimizer = make();
    train = optimizer->Minimize(g, loss).value();
    for (const VariableDef& variable : g.graph().variables()) {
      initializers.push_back(g.graph().FindNode(variable.initializer_name));
      variables.push_back(variable.snapshot_name);
    }
  }

  // Ids of few rows, so that many come several times.
  Feeds Batch(int step) const {
    std::mt19937 random_of_step(step);
    Tensor id(DType::kInt64, Shape({kExamples, kSlots}));
    Tensor number(DType::kFloat32, Shape({kExamples, kNumbers})),
        label(DType::kFloat32, Shape({kExamples, 1}));
    for (int64_t& x : id.flat<int64_t>()) x = random_of_step() % kRows;
    for (float& x : number.flat<float>()) x = static_cast<float>(random_of_step() % 2000) / 1000 - 1;
    for (float& x : label.flat<float>()) x = static_cast<float>(random_of_step() % 2);
    return {{ids, id}, {numbers, number}, {labels, label}};
  }

  Output ids, numbers, labels, loss;
  std::unique_ptr<Optimizer> optimizer;
  Node* train = nullptr;
  std::vector<TargetRef> initializers;
  std::vector<TensorRef> variables;

 private:
  Tensor Values(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    for (float& x : tensor.flat<float>()) x = static_cast<float>(random_() % 1000) / 1000 - 0.5f;
    return tensor;
  }
  Output Dense(GraphBuilder& g, Output x, int64_t inputs, int64_t outputs) {
    const Output kernel = MakeVariable(g, "kernel", Values(Shape({inputs, outputs}))).value;
    const Output bias = MakeVariable(g, "bias", Values(Shape({outputs}))).value;
    return BiasAdd(g, MatMul(g, x, kernel), bias);
  }

  std::mt19937 random_{3};
};

MakeOptimizer OptimizerOf(const std::string& name) {
  if (name == "Adagrad") return [] { return std::make_unique<Adagrad>(0.1); };
  if (name == "Ftrl")
    return [] { return std::make_unique<Ftrl>(0.1, FtrlOptions{.l1 = 0.001, .l2 = 0.001}); };
  if (name == "Momentum") return [] { return std::make_unique<Momentum>(0.05, 0.9); };
  return [] { return std::make_unique<GradientDescent>(0.1); };
}

// What must have been launched beside the sort.
std::string KernelOf(const std::string& optimizer) {
  return optimizer == "GradientDescent" ? "ScatterSub_float_uint32" : optimizer + "Rows_float_uint32";
}

class EmbeddingsTest : public CudaSessionTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EmbeddingsTest, LearnWhatTheyLearnOnTheCpu) {
  const MakeOptimizer make = OptimizerOf(GetParam());
  Place cpu({.num_threads = 2}), gpu(Gpus(1), {.log_placement = true});
  const Clicks on_cpu(cpu.g, "/cpu:0", make), on_gpu(gpu.g, "/gpu:0", make);
  ASSERT_TRUE(cpu.session().Run({}, {}, on_cpu.initializers).ok());
  const auto initialized = gpu.session().Run({}, {}, on_gpu.initializers);
  ASSERT_TRUE(initialized.ok()) << initialized.status();
  double most = 0;
  for (int step = 0; step < 25; ++step) {
    const auto expected = cpu.session().Run(on_cpu.Batch(step), {on_cpu.loss}, {on_cpu.train});
    const auto found = gpu.session().Run(on_gpu.Batch(step), {on_gpu.loss}, {on_gpu.train});
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
  EXPECT_THAT(Launches(), IsSupersetOf({std::string("SortPairs"), KernelOf(GetParam())}));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EmbeddingsTest,
                         ::testing::Values("Adagrad", "Ftrl", "GradientDescent", "Momentum"));

// An id that is in no table: the CPU's error, and nothing is applied.
TEST_F(CudaSessionTest, AnIdThatDoesNotExistIsTheCpusErrorAndNothingIsApplied) {
  Place cpu({.num_threads = 2}), gpu(Gpus(1));
  const Clicks on_cpu(cpu.g, "/cpu:0", OptimizerOf("Adagrad")),
      on_gpu(gpu.g, "/gpu:0", OptimizerOf("Adagrad"));
  for (auto [place, model] : {std::pair(&cpu, &on_cpu), std::pair(&gpu, &on_gpu)}) {
    ASSERT_TRUE(place->session().Run({}, {}, model->initializers).ok());
    const auto before = place->session().Run({}, model->variables);
    Feeds feeds = model->Batch(0);
    for (auto& [output, tensor] : feeds) {
      if (tensor.dtype() == DType::kInt64) tensor.flat<int64_t>()[7] = kRows;
    }
    const absl::Status status = place->session().Run(feeds, {model->loss}, {model->train}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("indices[2] = 11 is not in [0, 11)"));
    const auto after = place->session().Run({}, model->variables);
    ASSERT_TRUE(before.ok() && after.ok());
    for (size_t i = 0; i < before->size(); ++i) EXPECT_EQ(Difference((*after)[i], (*before)[i]), 0);
    ASSERT_TRUE(place->session().Run(model->Batch(1), {model->loss}, {model->train}).ok());
  }
}

TEST_F(CudaSessionTest, TablesOfEmbeddingsAreOnTheGpu) {
  Place gpu(Gpus(1), {.log_placement = true});
  const Clicks model(gpu.g, "", OptimizerOf("Adagrad"));
  const auto step =
      gpu.session().Prepare({model.ids, model.numbers, model.labels}, {model.loss}, {model.train});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(
      (*step)->placement_report().text,
      AllOf(Not(HasSubstr("there is no GPU kernel for")),
            HasSubstr("these compute on the host, for there is no GPU kernel: BroadcastGradientArgs (7), "
                      "StridedSlice (3), Unique (6)\n")));
}

// What the host looks at, ids, it has been fed: nothing comes back but what is fetched.
TEST_F(CudaSessionTest, AStepOfEmbeddingsWaitsForWhatItFetches) {
  Place gpu(Gpus(1));
  const Clicks model(gpu.g, "", OptimizerOf("Adagrad"));
  ASSERT_TRUE(gpu.session().Run({}, {}, model.initializers).ok());
  for (int step = 0; step < 4; ++step) {
    cuda_.ClearLog();
    ASSERT_TRUE(gpu.session().Run(model.Batch(step), {model.loss}, {model.train}).ok());
  }
  EXPECT_EQ(CountsOfLog().out, 1) << CountsOfLog();
  EXPECT_EQ(CountsOfLog().waits, 1);
}

}  // namespace
}  // namespace weir
