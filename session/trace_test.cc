// Steps that are traced: each way to run a program says when its nodes ran, and what a step computes stays
// the same.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "graph/interchange/step_stats.h"
#include "gtest/gtest.h"
#include "ops/control_flow.h"
#include "ops/standard_ops.h"
#include "session/executor/program_trace.h"
#include "session/session.h"
#include "session/step_trace.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using TraceTest = TestSession;

const NodeStats* Find(const RunMetadata& metadata, const std::string& node) {
  for (const DeviceStats& device : metadata.step_stats.devices) {
    for (const NodeStats& stats : device.nodes) {
      if (stats.node == node) return &stats;
    }
  }
  return nullptr;
}

TEST_F(TraceTest, AStaticProgramSaysWhenEachNodeRan) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Placeholder(g_, DType::kFloat32, {-1, 4}, {.name = "x"});
  const Output product = MatMul(g_, x, x, {.transpose_b = true, .name = "product"});
  const Output sum = ReduceSum(g_, product, {.name = "sum"});
  const Feeds feeds = {{x, Tensor::From<float>({2, 4}, {1, 1, 1, 1, 2, 2, 2, 2})}};
  for (const bool is_reordered : {false, true}) {
    RunMetadata metadata;
    const int64_t before = absl::GetCurrentTimeNanos();
    const std::vector<TensorRef> fetches =
        is_reordered ? std::vector<TensorRef>{sum, product} : std::vector<TensorRef>{product, sum};
    const auto out = session().Run(feeds, fetches, {}, {.trace = true}, &metadata);
    const int64_t after = absl::GetCurrentTimeNanos();
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[is_reordered ? 0 : 1].scalar<float>(), 36);
    ASSERT_THAT(metadata.step_stats.devices, SizeIs(1));
    EXPECT_THAT(metadata.step_stats.devices[0].device, HasSubstr("device:CPU:0"));
    const NodeStats *of_product = Find(metadata, "product"), *of_sum = Find(metadata, "sum");
    ASSERT_TRUE(of_product != nullptr && of_sum != nullptr);
    EXPECT_EQ(of_product->op, "MatMul");
    EXPECT_THAT(of_sum->inputs, ElementsAre("product"));
    EXPECT_LE(before, of_product->begin_nanos);
    EXPECT_LE(of_product->begin_nanos, of_product->end_nanos);
    EXPECT_LE(of_product->end_nanos, of_sum->begin_nanos);
    EXPECT_LE(of_sum->end_nanos, after);
  }
}

TEST_F(TraceTest, AStartedStepIsTracedToo) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Placeholder(g_, DType::kFloat32, {2}, {.name = "x"});
  const Output y = Square(g_, x, {.name = "y"}), sum = ReduceSum(g_, y, {.name = "sum"});
  for (const bool is_reordered : {false, true}) {
    const auto fetches = is_reordered ? std::vector<TensorRef>{sum, y} : std::vector<TensorRef>{y, sum};
    const auto step = session().Prepare({x}, fetches);
    ASSERT_TRUE(step.ok()) << step.status();
    const auto trace = std::make_shared<StepTrace>();
    const Step::Results results = (*step)->Start({Tensor::Vector<float>({1, 2})}, {}, trace)->Await();
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[is_reordered ? 0 : 1].scalar<float>(), 5);
    const RunMetadata metadata = {.step_stats = trace->Take(), .applied_updates = ""};
    EXPECT_NE(Find(metadata, "sum"), nullptr);
  }
}

TEST_F(TraceTest, TheGraphsOfAStepAreThoseOfItsDevices) {
  Output x, y;
  {
    auto cpu = g_.DeviceScope("/cpu:0");
    x = Placeholder(g_, DType::kFloat32, {2}, {.name = "x"});
    y = Square(g_, x, {.name = "y"});
    Square(g_, y, {.name = "not_asked_for"});
  }
  const auto graphs = session().PartitionGraphs({x}, {y}, {});
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_THAT(*graphs, SizeIs(1));
  EXPECT_NE((*graphs)[0]->FindNode("y"), nullptr);
  EXPECT_EQ((*graphs)[0]->FindNode("not_asked_for"), nullptr);
}

TEST_F(TraceTest, StepsThatDoNotAskAreNotTraced) {
  const Output x = Placeholder(g_, DType::kFloat32, {}, {.name = "x"});
  const Output y = Square(g_, x, {.name = "y"});
  const Feeds feeds = {{x, Tensor::Scalar(3.0f)}};
  RunMetadata metadata;
  ASSERT_TRUE(session().Run(feeds, {y}, {}, {.trace = true}, &metadata).ok());
  EXPECT_THAT(metadata.step_stats.devices, SizeIs(1));
  RunMetadata untraced;
  ASSERT_TRUE(session().Run(feeds, {y}, {}, {}, &untraced).ok());
  EXPECT_THAT(untraced.step_stats.devices, IsEmpty());
  EXPECT_TRUE(session().Run(feeds, {y}, {}, {.trace = true}).ok()) << "nowhere to put it";
}

TEST_F(TraceTest, EveryDeviceAndTheTransfersBetweenThem) {
  Output x, y;
  {
    auto gpu = g_.DeviceScope("/gpu:0");
    x = Placeholder(g_, DType::kFloat32, {-1}, {.name = "x"});
    y = Square(g_, x, {.name = "on_gpu"});
  }
  auto cpu = g_.DeviceScope("/cpu:1");
  const Output z = Neg(g_, y, {.name = "on_cpu"});
  for (int i = 0; i < 3; ++i) {
    RunMetadata metadata;
    const auto out =
        session().Run({{x, Tensor::Vector<float>({2, 3})}}, {z}, {}, {.trace = i != 1}, &metadata);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(-4, -9));
    if (i == 1) {
      EXPECT_THAT(metadata.step_stats.devices, IsEmpty());
      continue;
    }
    std::map<std::string, std::vector<std::string>> ops;
    for (const DeviceStats& device : metadata.step_stats.devices) {
      for (const NodeStats& node : device.nodes)
        ops[device.device.substr(device.device.size() - 5)].push_back(node.op);
    }
    EXPECT_THAT(ops["GPU:0"], testing::Contains("Square"));
    EXPECT_THAT(ops["GPU:0"], testing::Contains("_Send"));
    EXPECT_THAT(ops["CPU:1"], testing::Contains("_Recv"));
    EXPECT_THAT(ops["CPU:1"], testing::Contains("Neg"));
    EXPECT_LE(Find(metadata, "on_gpu")->end_nanos, Find(metadata, "on_cpu")->begin_nanos);
  }
}

TEST_F(TraceTest, ANodeInALoopRunsOnceForEachIteration) {
  const Output n = Placeholder(g_, DType::kInt32, {}, {.name = "n"});
  const auto result = While(
      g_, {Const(g_, 0), Const(g_, 1.0f)},
      [&](const std::vector<Output>& state) { return Less(g_, state[0], n); },
      [&](const std::vector<Output>& state) {
        return std::vector<Output>{AddV2(g_, state[0], Const(g_, 1)), Mul(g_, state[1], Const(g_, 2.0f))};
      });
  ASSERT_TRUE(g_.ok()) << g_.status();
  RunMetadata metadata;
  const auto out = session().Run({{n, Tensor::Scalar(5)}}, {result[1]}, {}, {.trace = true}, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 32);
  int num_runs = 0;
  for (const NodeStats& node : metadata.step_stats.devices[0].nodes) num_runs += node.op == "Mul";
  EXPECT_EQ(num_runs, 5);
}

// A loop could fill the memory.
TEST_F(TraceTest, ATraceHasSoManyNodesAndNoMore) {
  const auto cpu = g_.DeviceScope("/cpu:0");
  constexpr int32_t kTurns = 150'000;  // of two nodes each
  const Output last = While(
      g_, {Const(g_, int32_t{0})},
      [&](const std::vector<Output>& i) { return Less(g_, i[0], Const(g_, kTurns)); },
      [&](const std::vector<Output>& i) { return std::vector{Add(g_, i[0], Const(g_, int32_t{1}))}; })[0];
  RunMetadata metadata;
  const auto out = session().Run({}, {last}, {}, {.trace = true}, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<int32_t>(), kTurns);
  ASSERT_THAT(metadata.step_stats.devices, SizeIs(1));
  EXPECT_EQ(metadata.step_stats.devices[0].nodes.size(), ProgramTrace::kMaxNodes);
}

TEST_F(TraceTest, AStepThatFailsTellsWhatItDid) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Placeholder(g_, DType::kFloat32, {2, 2}, {.name = "x"});
  const Output shape = Placeholder(g_, DType::kInt32, {1}, {.name = "shape"});
  const Output product = MatMul(g_, x, x, {.name = "product"});
  const Output reshaped = Reshape(g_, product, shape, {.name = "reshaped"});
  RunMetadata metadata;
  const Feeds feeds = {{x, Tensor::From<float>({2, 2}, {1, 2, 3, 4})}, {shape, Tensor::Vector<int32_t>({3})}};
  EXPECT_FALSE(session().Run(feeds, {reshaped}, {}, {.trace = true}, &metadata).ok());
  EXPECT_NE(Find(metadata, "product"), nullptr);
}

}  // namespace
}  // namespace weir
