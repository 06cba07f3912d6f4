#include "session/session.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"
#include "ops/training/piecewise_constant.h"
#include "ops/training/polynomial_decay.h"
#include "session/local_worker.h"
#include "session/partial_run.h"
#include "session/received_edges.h"
#include "session/runtime.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

Output Constant(GraphBuilder& g, Tensor value) {
  const DType dtype = value.dtype();
  return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
}

Output Input(GraphBuilder& g, PartialShape shape, absl::string_view name = "") {
  return g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}}, name);
}

using SessionTest = TestSession;

TEST_F(SessionTest, RunsAPlainStep) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Input(g_, {-1}, "x"),
               y = g_.AddOp("AddV2", {x, Constant(g_, Tensor::Scalar(1.0f))}, {}, "y");
  auto out = session().Run({{x, Tensor::Vector<float>({1, 2})}}, {y, "y:0"});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(2, 3));
  EXPECT_THAT((*out)[1].flat<float>(), ElementsAre(2, 3));
}

TEST_F(SessionTest, ADecayingLearningRateIsTensorFlows) {
  const Output step =
      g_.AddOp("Placeholder", {}, {{"dtype", DType::kInt64}, {"shape", PartialShape::OfRank(0)}});
  const Output line = PolynomialDecay(g_, 0.1, step, 100, {.end_learning_rate = 0.01});
  const Output curve = PolynomialDecay(g_, 0.1, step, 100, {.end_learning_rate = 0.01, .power = 2});
  // tf.compat.v1.train.polynomial_decay of TensorFlow 2.21.0.
  const std::vector<std::tuple<int64_t, float, float>> expected = {{0, 0.100000001f, 0.100000001f},
                                                                   {30, 0.0730000064f, 0.0541000068f},
                                                                   {99, 0.0109000038f, 0.0100090001f},
                                                                   {100, 0.00999999978f, 0.00999999978f},
                                                                   {150, 0.00999999978f, 0.00999999978f}};
  for (const auto& [at, on_line, on_curve] : expected) {
    auto out = session().Run({{step, Tensor::Scalar(at)}}, {line, curve});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_NEAR((*out)[0].scalar<float>(), on_line, 1e-7) << at;
    EXPECT_NEAR((*out)[1].scalar<float>(), on_curve, 1e-7) << at;
  }
  PolynomialDecay(g_, 0.1, step, 0);
  EXPECT_THAT(Message(g_.status()), HasSubstr("decay_steps is 0, must be at least 1"));
}

TEST_F(SessionTest, APiecewiseConstantLearningRateChangesAfterItsBoundaries) {
  const Output step =
      g_.AddOp("Placeholder", {}, {{"dtype", DType::kInt64}, {"shape", PartialShape::OfRank(0)}});
  const Output rate = PiecewiseConstant(g_, step, {10, 20}, {1, 0.5, 0.25});
  const std::vector<std::pair<int64_t, float>> expected = {{0, 1}, {10, 1}, {11, 0.5}, {20, 0.5}, {21, 0.25}};
  for (const auto& [at, value] : expected) {
    const auto out = session().Run({{step, Tensor::Scalar(at)}}, {rate});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), value) << at;
  }
  PiecewiseConstant(g_, step, {20, 20}, {1, 2, 3});
  EXPECT_THAT(Message(g_.status()), HasSubstr("boundaries must ascend"));
}

TEST_F(SessionTest, FetchesOfFeedsConstantsAndThroughIdentities) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Input(g_, {-1}, "x"), c = Constant(g_, Tensor::Scalar(7.0f));
  const Output same = g_.AddOp("Identity", {g_.AddOp("Identity", {x})}), constant = g_.AddOp("Identity", {c});
  for (int i = 0; i < 3; ++i) {
    auto out = session().Run({{x, Tensor::Vector<float>({4})}}, {same, constant, c});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), 4);
    EXPECT_EQ((*out)[1].scalar<float>(), 7);
    EXPECT_EQ((*out)[2].scalar<float>(), 7);
  }
}

TEST_F(SessionTest, ACallersFeedIsNeverOverwritten) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Input(g_, {-1}), y = g_.AddOp("Neg", {g_.AddOp("Neg", {g_.AddOp("Neg", {x})})});
  const Tensor fed = Tensor::Vector<float>({1, 2});
  for (int i = 0; i < 3; ++i) {
    auto out = session().Run({{x, fed}}, {y});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(-1, -2));
    EXPECT_THAT(fed.flat<float>(), ElementsAre(1, 2));
  }
}

// A buffer that a kernel reads through several of its inputs must not become its output: AddN would add what
// it has summed so far.
TEST_F(SessionTest, AnInputThatStandsTwiceIsNeverOverwritten) {
  const auto add_thrice = [this](Output x) {
    const Output d = g_.AddOp("Neg", {x});
    return g_.AddOp("AddN", {InputArg({d, d, d})});
  };
  Output x, in_static, in_dataflow;
  {
    auto cpu = g_.DeviceScope("/cpu:0");
    x = Input(g_, {-1}, "x");
    in_static = add_thrice(x);
  }
  {
    auto other = g_.DeviceScope("/cpu:1");  // its part receives, so the dataflow executor runs it
    in_dataflow = add_thrice(x);
  }
  for (const Output& sum : {in_static, in_dataflow}) {
    auto out = session().Run({{x, Tensor::Vector<float>({1, 2})}}, {sum});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(-3, -6)) << sum.name();
  }
}

TEST_F(SessionTest, TheGradientOfASumOfOneTensorThriceIsThree) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Input(g_, {4}, "x");
  const Output sum = g_.AddOp("AddV2", {g_.AddOp("AddV2", {x, x}), x});
  const Output y = g_.AddOp("Square", {sum});
  const Output dx = AddGradients(g_, {y}, {x}).value()[0];
  auto out = session().Run({{x, Tensor::Vector<float>({1, 2, 3, 4})}}, {dx});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(18, 36, 54, 72));
}

TEST_F(SessionTest, TensorsCrossDevices) {
  Output x, y, z;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Constant(g_, Tensor::Vector<float>({1, 2, 3}));
    x = g_.AddOp("AddV2", {x, x});
  }
  {
    auto device = g_.DeviceScope("/gpu:1");
    y = g_.AddOp("Square", {x});
  }
  {
    auto device = g_.DeviceScope("/cpu:1");
    z = g_.AddOp("AddV2", {y, x});
  }
  for (int i = 0; i < 5; ++i) {
    auto out = session().Run({}, {z});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(6, 20, 42));
  }
  EXPECT_EQ(worker_.num_running_steps(), 0);
}

TEST_F(SessionTest, ControlEdgesOrderAcrossDevices) {
  Output handle;
  Node *assign = nullptr, *add = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    handle = g_.AddOp("VarHandleOp", {},
                      {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
    assign = g_.AddNode("AssignVariableOp", {handle, Constant(g_, Tensor::Scalar(1.0f))});
  }
  Output other;
  {
    auto device = g_.DeviceScope("/cpu:1");
    auto after = g_.ControlScope({assign});
    other = g_.AddOp("Square", {Constant(g_, Tensor::Scalar(5.0f))});
  }
  {
    auto device = g_.DeviceScope("/gpu:0");
    add = g_.AddNode("AssignAddVariableOp", {handle, other});
  }
  auto after = g_.ControlScope({add});
  const Output read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  for (int i = 0; i < 3; ++i) {
    auto out = session().Run({}, {read});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), 26);
  }
}

// As above, but what must come first waits for a third device.
TEST_F(SessionTest, AControlEdgeAcrossDevicesWaitsForWhatIsReceived) {
  Output x, slow, handle, other;
  {
    auto device = g_.DeviceScope("/gpu:1");
    x = Input(g_, {}, "x");
    slow = g_.AddOp("Neg", {x});
    for (int i = 1; i < 20; ++i) slow = g_.AddOp("Neg", {slow});
  }
  Node *assign = nullptr, *add = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    handle = g_.AddOp("VarHandleOp", {},
                      {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
    assign = g_.AddNode("AssignVariableOp", {handle, slow});
  }
  {
    auto device = g_.DeviceScope("/cpu:0");
    auto after = g_.ControlScope({assign});
    other = g_.AddOp("Square", {Constant(g_, Tensor::Scalar(5.0f))});
  }
  {
    auto device = g_.DeviceScope("/gpu:0");
    add = g_.AddNode("AssignAddVariableOp", {handle, other});
  }
  auto after = g_.ControlScope({add});
  const Output read = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  for (float value : {1.0f, 2.0f, 3.0f}) {
    auto out = session().Run({{x, Tensor::Scalar(value)}}, {read});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].scalar<float>(), value + 25);
  }
}

TEST_F(SessionTest, ErrorsNameNodeDeviceAndReason) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output x = Input(g_, {}, "x"), unfed = Input(g_, {2}, "images");
  const Output bad = g_.AddOp("AddV2", {x, Constant(g_, Tensor::Vector<float>({1, 2, 3}))}, {}, "sum");
  EXPECT_THAT(Message(session().Run({{x, Tensor::Vector<float>({1, 2})}}, {bad}).status()),
              AllOf(HasSubstr("AddV2 'sum' on /job:localhost/replica:0/task:0/device:CPU:0"),
                    HasSubstr("[2]"), HasSubstr("[3]")));
  EXPECT_THAT(Message(session().Run({{unfed, Tensor::Vector<float>({1, 2, 3})}}, {unfed}).status()),
              HasSubstr("both fed and fetched"));
  const Output twice = g_.AddOp("AddV2", {unfed, unfed});
  EXPECT_THAT(Message(session().Run({{unfed, Tensor::Vector<float>({1, 2, 3})}}, {twice}).status()),
              AllOf(HasSubstr("'images:0'"), HasSubstr("float[2]"), HasSubstr("float[3]")));
  EXPECT_THAT(Message(session().Run({}, {twice}).status()), HasSubstr("images"));
  EXPECT_THAT(Message(session().Run({}, {"summ"}).status()), HasSubstr("did you mean 'sum'"));
  EXPECT_FALSE(session().Run({}, {Output()}).ok());
  EXPECT_EQ(worker_.num_running_steps(), 0);
}

// Ids of another graph mean other nodes here: a step would compute something else, or read past the end.
TEST_F(SessionTest, OutputsThatTheGraphDoesNotHaveAreRefused) {
  const Output own = Constant(g_, Tensor::Scalar(1.0f));
  GraphBuilder other(runtime_->ops());
  const Output foreign = Constant(other, Tensor::Scalar(2.0f));
  const auto is_foreign = HasSubstr("Const 'Const' is a node of another graph");
  EXPECT_THAT(Message(session().Run({}, {foreign}).status()), is_foreign);
  EXPECT_THAT(Message(session().Run({}, {own}, {foreign}).status()), is_foreign);
  EXPECT_THAT(Message(session().Run({{foreign, Tensor::Scalar(3.0f)}}, {own}).status()), is_foreign);
  EXPECT_THAT(Message(session().Prepare({}, {foreign}).status()), is_foreign);
  EXPECT_THAT(Message(session().StartPartialRun({}, {foreign}).status()), is_foreign);
  EXPECT_THAT(Message(Session::Create(g_.graph(), {nullptr}, runtime_->kernels()).status()),
              HasSubstr("workers is null"));
  SessionOptions no_environment;
  no_environment.environment = nullptr;
  EXPECT_THAT(Message(Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), no_environment).status()),
              HasSubstr("a session needs an environment"));
  for (const int index : {-1, 1}) {
    EXPECT_THAT(Message(session().Run({}, {Output{own.node, index}}).status()), HasSubstr("has 1 outputs"));
  }
}

TEST_F(SessionTest, AnErrorOnOneDeviceEndsTheStepOnAll) {
  Output broken, rest;
  {
    auto device = g_.DeviceScope("/gpu:0");
    broken = g_.AddOp("FloorDiv",
                      {Constant(g_, Tensor::Scalar<int32_t>(1)), Constant(g_, Tensor::Scalar<int32_t>(0))},
                      {}, "broken");
  }
  {
    auto device = g_.DeviceScope("/gpu:1");
    rest = g_.AddOp("Neg", {broken});
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Message(session().Run({}, {rest}).status()), HasSubstr("FloorDiv 'broken'"));
  }
  EXPECT_EQ(worker_.num_running_steps(), 0);
}

TEST_F(SessionTest, ManyThreadsShareAPreparedStep) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Input(g_, {}, "x");
    y = g_.AddOp("Square", {x});
  }
  {
    auto device = g_.DeviceScope("/cpu:0");
    y = g_.AddOp("AddV2", {y, Constant(g_, Tensor::Scalar(0.5f))});
  }
  auto step = session().Prepare({x}, {y}).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const float value = t * 1000 + i;
        Tensor feed = Tensor::Scalar(value), fetch;
        const absl::Status status = step->Run({feed}, absl::MakeSpan(&fetch, 1));
        wrong += !status.ok() || fetch.scalar<float>() != value * value + 0.5f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// TensorFlow's session keeps a random node's kernel, and so its stream, over all signatures.
TEST_F(SessionTest, ARandomNodeHasOneStreamWhateverIsFetchedWithIt) {
  auto cpu = g_.DeviceScope("/cpu:0");
  const Output shape = Constant(g_, Tensor::Vector<int32_t>({3}));
  const auto random = [&](absl::string_view name) {
    return g_.AddOp("RandomUniform", {shape},
                    {{"dtype", DType::kFloat32}, {"seed", int64_t{7}}, {"seed2", int64_t{11}}}, name);
  };
  const Output r = random("r"), same_seeds = random("same_seeds"), other = g_.AddOp("Neg", {r});
  const auto values = [&](const std::vector<TensorRef>& fetches) {
    auto out = session().Run({}, fetches);
    EXPECT_TRUE(out.ok()) << out.status();
    const auto flat = (*out)[0].flat<float>();
    return std::vector<float>(flat.begin(), flat.end());
  };
  const std::vector<float> first = values({r}), second = values({r, other});
  EXPECT_EQ(first, values({same_seeds}));
  EXPECT_EQ(second, values({same_seeds}));
  EXPECT_NE(first, second);

  session_.reset();  // another session begins anew
  EXPECT_EQ(worker_.num_sessions(), 0);
  EXPECT_EQ(values({r}), first);
}

TEST_F(SessionTest, ASessionThatIsClosedRunsNothing) {
  const Output c = Constant(g_, Tensor::Scalar(1.0f));
  ASSERT_TRUE(session().Run({}, {c}).ok());
  EXPECT_EQ(worker_.num_plans(), 1);
  session().Close();
  EXPECT_EQ(session().Run({}, {c}).status().code(), absl::StatusCode::kCancelled);
  // Its graph is not looked at: it may be gone.
  EXPECT_EQ(session().Run({}, {"no_such_node"}).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(session().StartPartialRun({}, {"no_such_node"}).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(worker_.num_plans(), 0);
}

// A plan whose tensor comes from another worker that never sends it.
class WaitingStepTest : public testing::Test {
 protected:
  WaitingStepTest() : runtime_(Runtime::Create().value()), worker_(*runtime_, runtime_->task()) {
    auto graph = std::make_unique<Graph>(runtime_->ops());
    Node* recv = graph
                     ->AddNode({.op = "_Recv",
                                .name = "recv",
                                .attrs = {{"tensor_type", DType::kFloat32},
                                          {"tensor_name", "w:0"},
                                          {"send_device", "/job:ps/replica:0/task:0/device:CPU:0"},
                                          {"send_device_incarnation", 0},
                                          {"recv_device", runtime_->devices()[0]->name().ToString()},
                                          {"_edge", 0}}})
                     .value();
    Node* result =
        graph
            ->AddNode(
                {.op = "_Retval", .name = "result", .inputs = {recv->output(0)}, .attrs = {{"index", 0}}})
            .value();
    for (Node* node : {recv, result}) graph->SetAssignedDevice(node, runtime_->devices()[0]->name());
    PartitionSpec spec = {.plan = 5, .num_edges = 1, .num_results = 1};
    spec.graphs.push_back(std::move(graph));
    EXPECT_TRUE(worker_.RegisterPartition(std::move(spec), absl::InfiniteFuture()).ok());
  }

  RunPartitionCall Call(int64_t step_id) {
    return {.plan = 5, .step_id = step_id, .results = absl::MakeSpan(&result_, 1)};
  }

  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  Tensor result_;
};

TEST_F(WaitingStepTest, APushedTensorMayComeBeforeOrAfter) {
  for (int64_t step_id : {1, 2}) {
    const RunPartitionCall call = Call(step_id);
    const Tensor pushed = Tensor::Scalar(2.5f * step_id);
    absl::Status status = absl::UnknownError("not done");
    absl::Notification done;
    if (step_id == 1) {
      EXPECT_TRUE(worker_.Receive(5, step_id, 0, kOnlyTurn, pushed, false).ok());
    }
    worker_.RunPartition(call, [&](absl::Status s) {
      status = s;
      done.Notify();
    });
    if (step_id == 2) {
      EXPECT_FALSE(done.HasBeenNotified());
      EXPECT_TRUE(worker_.Receive(5, step_id, 0, kOnlyTurn, pushed, false).ok());
    }
    // The step may go on on a thread of its own.
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(result_.scalar<float>(), 2.5f * step_id);
    EXPECT_TRUE(worker_.Receive(5, step_id, 0, kOnlyTurn, pushed, false).ok()) << "late tensors are dropped";
  }
  EXPECT_EQ(worker_.Receive(6, 1, 0, kOnlyTurn, Tensor(), false).code(), absl::StatusCode::kNotFound);
}

TEST_F(WaitingStepTest, CancellingEndsAWaitAndForbidsALateStart) {
  const RunPartitionCall call = Call(1), late = Call(2);
  absl::Status status;
  worker_.RunPartition(call, [&](absl::Status s) { status = s; });
  EXPECT_EQ(worker_.num_running_steps(), 1);
  worker_.CancelStep(5, 1, absl::AbortedError("ps lost"));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(worker_.num_running_steps(), 0);
  worker_.CancelStep(5, 2, absl::AbortedError("cancelled early"));
  worker_.RunPartition(late, [&](absl::Status s) { status = s; });
  EXPECT_EQ(status.message(), "cancelled early");
}

// Whoever asked may have gone: the worker sees to the deadline itself.
TEST_F(WaitingStepTest, TheDeadlineEndsAWaitAndSaysForWhat) {
  RunPartitionCall call = Call(1);
  call.deadline = absl::Now() + absl::Milliseconds(20);
  absl::Status status;
  absl::Notification done;
  worker_.RunPartition(call, [&](absl::Status s) {
    status = s;
    done.Notify();
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("step 1 has run out of time"), HasSubstr("'w:0'"),
                                     HasSubstr("/job:ps/replica:0/task:0")));
}

TEST_F(WaitingStepTest, DroppingThePlanEndsItsSteps) {
  const RunPartitionCall call = Call(1);
  absl::Status status;
  worker_.RunPartition(call, [&](absl::Status s) { status = s; });
  worker_.DeregisterPartition(5);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(WaitingStepTest, AFloodOfStepsThatNeverStartIsBounded) {
  absl::Status status;
  for (int64_t step_id = 1; step_id < 10000 && status.ok(); ++step_id) {
    status = worker_.Receive(5, step_id, 0, kOnlyTurn, Tensor::Scalar(1.0f), false);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(WaitingStepTest, AWrongDtypeFromOutsideIsAnError) {
  const RunPartitionCall call = Call(1);
  absl::Status status;
  absl::Notification done;
  worker_.RunPartition(call, [&](absl::Status s) {
    status = s;
    done.Notify();
  });
  EXPECT_TRUE(worker_.Receive(5, 1, 0, kOnlyTurn, Tensor::Scalar<int32_t>(1), false).ok());
  // The step may go on on a thread of its own.
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("_Recv 'recv'"), HasSubstr("float"), HasSubstr("int32")));
}

}  // namespace
}  // namespace weir
