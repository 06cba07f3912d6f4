// A worker by itself: what it does with steps, tensors and deadlines when nobody else behaves.
#include "session/local_worker.h"

#include <signal.h>

#include <climits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "kernels/formats/full_disk.h"
#include "kernels/formats/test_files.h"
#include "session/early_steps.h"
#include "session/received_edges.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/tensor_sender.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr PlanId kPlan = 5;

// A step of the plan: result 0 is the sum of what comes over its edges.
struct RunningStep {
  absl::Status Wait() {
    done.WaitForNotification();
    return status;
  }
  float value() const { return results[0].scalar<float>(); }

  RunPartitionCall call;
  std::vector<Tensor> results = std::vector<Tensor>(1);
  absl::Notification done;
  absl::Status status;
};

class LocalWorkerTest : public testing::Test {
 protected:
  explicit LocalWorkerTest(TensorSender* sender = nullptr)
      : runtime_(Runtime::Create().value()), worker_(*runtime_, runtime_->task(), sender) {}

  // The sum of edges 0 to num_edges - 1, in a plan of more edges when `num_of_plan` is given.
  void RegisterSumOfEdges(int num_edges, int num_of_plan = 0, PlanId plan = kPlan, SessionId session = 0,
                          LocalWorker* worker = nullptr) {
    auto graph = std::make_unique<Graph>(runtime_->ops());
    std::vector<Output> received;
    for (int64_t edge = 0; edge < num_edges; ++edge) {
      received.push_back(
          Add(*graph, {.op = kRecvOp,
                       .name = absl::StrCat("recv_", edge),
                       .attrs = {{"tensor_type", DType::kFloat32},
                                 {"tensor_name", absl::StrCat("x", edge, ":0")},
                                 {"send_device", "/job:localhost/replica:0/task:1/device:CPU:0"},
                                 {"send_device_incarnation", 0},
                                 {"recv_device", Cpu().ToString()},
                                 {kEdgeAttr, edge}}})
              ->output(0));
    }
    const Output sum = Add(*graph, {.op = "AddN", .name = "sum", .inputs = {received}})->output(0);
    Add(*graph, {.op = kRetvalOp, .name = "result", .inputs = {sum}, .attrs = {{"index", 0}}});
    PartitionSpec spec;
    spec.plan = plan;
    spec.session = session;
    spec.num_edges = std::max(num_edges, num_of_plan);
    spec.num_results = 1;
    spec.graphs.push_back(std::move(graph));
    if (worker == nullptr) worker = &worker_;
    const absl::Status status = worker->RegisterPartition(std::move(spec), absl::InfiniteFuture());
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<RunningStep> Start(int64_t step_id, absl::Time deadline = absl::InfiniteFuture(),
                                     int64_t over_below = 0, LocalWorker* worker = nullptr) {
    auto step = std::make_unique<RunningStep>();
    step->call = {.plan = kPlan,
                  .step_id = step_id,
                  .over_below = over_below,
                  .deadline = deadline,
                  .results = absl::MakeSpan(step->results)};
    (worker != nullptr ? worker : &worker_)
        ->RunPartition(step->call, [step = step.get()](absl::Status status) {
          step->status = status;
          step->done.Notify();
        });
    return step;
  }

  absl::Status Receive(int64_t step_id, int edge, float value) {
    return worker_.Receive(kPlan, step_id, edge, kOnlyTurn, Tensor::Scalar(value), /*is_dead=*/false);
  }

  DeviceName Cpu() const { return runtime_->devices()[0]->attributes().name; }

  Node* Add(Graph& graph, NodeSpec spec) {
    absl::StatusOr<Node*> node = graph.AddNode(std::move(spec));
    EXPECT_TRUE(node.ok()) << node.status();
    graph.SetAssignedDevice(*node, Cpu());
    return *node;
  }

  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
};

TEST_F(LocalWorkerTest, TensorsMayComeBeforeTheStepAndInAnyOrder) {
  RegisterSumOfEdges(3);
  ASSERT_TRUE(Receive(1, 2, 100).ok());
  const auto step = Start(1);
  ASSERT_TRUE(Receive(1, 0, 1).ok());
  ASSERT_TRUE(Receive(1, 1, 10).ok());
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  EXPECT_EQ(step->value(), 111);
}

class DroppedPlanTest : public ActsTest {
 protected:
  DroppedPlanTest() : ActsTest(/*is_stateful=*/true) { may_block_ = true; }
};

// The step uses the worker's threads and its sender until it is over, though nobody knows its plan any more.
TEST_F(DroppedPlanTest, AWorkerAtItsEndWaitsForStepsOfPlansThatWereDropped) {
  const auto runtime = Runtime::Create({.ops = &ops_, .register_kernels = RegisterAct}).value();
  auto worker = std::make_unique<LocalWorker>(*runtime, runtime->task());
  absl::Notification has_begun, is_over, has_gone;
  bool was_outlived = true;
  AddAct(Constant(1), [&](KernelContext&) {
    has_begun.Notify();
    was_outlived = has_gone.WaitForNotificationWithTimeout(absl::Milliseconds(300));
    return absl::OkStatus();
  });
  PartitionSpec spec;
  spec.plan = kPlan;
  spec.graphs.push_back(g_.graph().Clone());
  for (const auto& node : spec.graphs[0]->nodes()) {
    spec.graphs[0]->SetAssignedDevice(node.get(), runtime->devices()[0]->attributes().name);
  }
  ASSERT_TRUE(worker->RegisterPartition(std::move(spec), absl::InfiniteFuture()).ok());
  const RunPartitionCall call = {.plan = kPlan, .step_id = 1};
  worker->RunPartition(call, [&](const absl::Status&) { is_over.Notify(); });
  has_begun.WaitForNotification();
  worker->DeregisterPartition(kPlan);
  worker.reset();
  has_gone.Notify();
  is_over.WaitForNotification();
  EXPECT_FALSE(was_outlived);
}

// Notes which steps' tensors are not to be sent any more.
class NotingSender final : public TensorSender {
 public:
  absl::Status Send(PlanId, int64_t, int, int64_t, const DeviceName&, const Tensor&, bool) override {
    return absl::OkStatus();
  }
  void Flush(PlanId, int64_t) override {}
  void Discard(PlanId, int64_t) override {}
  void Withdraw(PlanId plan, int64_t step_id) override {
    EXPECT_EQ(plan, kPlan);
    withdrawn.insert(step_id);
  }
  std::set<int64_t> withdrawn;
};

class SendingWorkerTest : public LocalWorkerTest {
 protected:
  SendingWorkerTest() : LocalWorkerTest(&sender_) {}
  NotingSender sender_;
};

// It may have sent what still waits for room on its way.
TEST_F(SendingWorkerTest, TensorsOfAStepThatFailsAreNotSentAnyMore) {
  RegisterSumOfEdges(1);
  const auto good = Start(1), cancelled = Start(2), late = Start(3);
  ASSERT_TRUE(Receive(1, 0, 1).ok());
  ASSERT_TRUE(good->Wait().ok());
  worker_.CancelStep(kPlan, 2, absl::AbortedError("unwanted"));
  EXPECT_TRUE(absl::IsAborted(cancelled->Wait()));
  EXPECT_THAT(sender_.withdrawn, testing::ElementsAre(2));
  ASSERT_TRUE(Receive(3, 0, 1).ok());
  ASSERT_TRUE(late->Wait().ok());
  worker_.CancelStep(kPlan, 3, absl::AbortedError("its part here is over"));
  EXPECT_THAT(sender_.withdrawn, testing::ElementsAre(2, 3));
  const auto overdue = Start(4, absl::Now() + absl::Milliseconds(10));
  EXPECT_TRUE(absl::IsDeadlineExceeded(overdue->Wait()));
  EXPECT_THAT(sender_.withdrawn, testing::ElementsAre(2, 3, 4));
}

// Others' threads, but for a timer that has begun when it is to be forgotten, and goes on when the test says.
class SlowTimer final : public Threads {
 public:
  explicit SlowTimer(Threads& others) : others_(others) {}
  void Compute(Runnable* work) override { others_.Compute(work); }
  absl::Status Block(absl::AnyInvocable<void()> work) override { return others_.Block(std::move(work)); }
  TimerId At(absl::Time, absl::AnyInvocable<void()> work) override {
    timer_ = std::move(work);
    return 1;
  }
  bool Forget(TimerId) override { return false; }

  void GoOn() { std::exchange(timer_, nullptr)(); }

 private:
  Threads& others_;
  absl::AnyInvocable<void()> timer_;
};

TEST_F(LocalWorkerTest, ATimerThatIsLateForItsStepUsesNothingThatMayBeGone) {
  SlowTimer threads(runtime_->step_threads());
  NotingSender sender;
  auto worker = std::make_unique<LocalWorker>(*runtime_, runtime_->task(), &sender, &threads);
  RegisterSumOfEdges(1, 0, kPlan, 0, worker.get());
  const auto overdue = Start(1, absl::Now() + absl::Hours(1), 0, worker.get());
  threads.GoOn();
  EXPECT_TRUE(absl::IsDeadlineExceeded(overdue->Wait()));
  EXPECT_THAT(std::exchange(sender.withdrawn, {}), testing::ElementsAre(1));
  const auto step = Start(2, absl::Now() + absl::Hours(1), 0, worker.get());
  ASSERT_TRUE(worker->Receive(kPlan, 2, 0, kOnlyTurn, Tensor::Scalar(1.0f), /*is_dead=*/false).ok());
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  worker.reset();
  threads.GoOn();
  EXPECT_THAT(sender.withdrawn, testing::IsEmpty());
}

// Each step that runs has frames of its own. Only some of them are kept for later steps.
TEST_F(LocalWorkerTest, ABurstOfStepsLeavesFewIdleOnes) {
  RegisterSumOfEdges(1);
  constexpr int kNumSteps = 1000;
  std::vector<std::unique_ptr<RunningStep>> steps;
  for (int id = 1; id <= kNumSteps; ++id) steps.push_back(Start(id));
  EXPECT_EQ(worker_.num_running_steps(), kNumSteps);
  for (int id = 1; id <= kNumSteps; ++id) ASSERT_TRUE(Receive(id, 0, static_cast<float>(id)).ok());
  for (int id = 1; id <= kNumSteps; ++id) {
    ASSERT_TRUE(steps[id - 1]->Wait().ok()) << steps[id - 1]->status;
    EXPECT_EQ(steps[id - 1]->value(), id);
  }
  EXPECT_GE(worker_.num_idle_steps(), 1);
  EXPECT_LE(worker_.num_idle_steps(), 16);
}

TEST_F(LocalWorkerTest, ABurstOfStepsThatNeverStartLeavesFewIdleOnes) {
  RegisterSumOfEdges(2);
  constexpr int kNumSteps = 200;
  for (int id = 1; id <= kNumSteps; ++id) ASSERT_TRUE(Receive(id, 0, 1).ok());
  for (int id = 1; id <= kNumSteps; ++id) worker_.CancelStep(kPlan, id, absl::CancelledError("unwanted"));
  EXPECT_LE(worker_.num_idle_steps(), 16);
}

// Nobody starts them any more, and nobody has said so of each: the owner's next step does.
TEST_F(LocalWorkerTest, StepsThatAreOverForTheirOwnerTakeNoPlaceOfNewOnes) {
  RegisterSumOfEdges(1);
  for (int id = 1; id <= EarlySteps::kMaxPerPlan; ++id) ASSERT_TRUE(Receive(id, 0, 1).ok());
  ASSERT_TRUE(absl::IsResourceExhausted(Receive(300, 0, 1)));
  const auto step = Start(300, absl::InfiniteFuture(), /*over_below=*/300);
  ASSERT_TRUE(Receive(300, 0, 7).ok());
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  EXPECT_EQ(worker_.num_early_bytes(), 0);
  EXPECT_TRUE(Receive(299, 0, 1).ok()) << "dropped";
  EXPECT_EQ(worker_.num_early_bytes(), 0);
  EXPECT_TRUE(Receive(301, 0, 1).ok());
  EXPECT_GT(worker_.num_early_bytes(), 0);
  const auto late = Start(299);
  EXPECT_TRUE(absl::IsAborted(late->Wait())) << late->status;
}

TEST_F(LocalWorkerTest, AStepOfAPlanWithoutEdgesCanBeCancelledBeforeItStarts) {
  auto graph = std::make_unique<Graph>(runtime_->ops());
  Node* const one = Add(
      *graph,
      {.op = "Const", .name = "one", .attrs = {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}}});
  Add(*graph, {.op = kRetvalOp, .name = "result", .inputs = {one->output(0)}, .attrs = {{"index", 0}}});
  PartitionSpec spec;
  spec.plan = kPlan;
  spec.num_results = 1;
  spec.graphs.push_back(std::move(graph));
  ASSERT_TRUE(worker_.RegisterPartition(std::move(spec), absl::InfiniteFuture()).ok());
  worker_.CancelStep(kPlan, 2, absl::AbortedError("unwanted"));
  const auto first = Start(1), second = Start(2), third = Start(3);
  EXPECT_TRUE(first->Wait().ok()) << first->status;
  EXPECT_EQ(second->Wait(), absl::AbortedError("unwanted"));
  EXPECT_TRUE(third->Wait().ok()) << third->status;
}

// As many as may wait for steps to come, and more.
TEST_F(LocalWorkerTest, LateTensorsOfFinishedStepsTakeNoPlaceOfNewOnes) {
  RegisterSumOfEdges(1);
  constexpr int kNumSteps = 300;
  for (int id = 1; id <= kNumSteps; ++id) {
    const auto step = Start(id);
    ASSERT_TRUE(Receive(id, 0, 1).ok());
    ASSERT_TRUE(step->Wait().ok()) << step->status;
  }
  for (int id = 1; id <= kNumSteps; ++id) ASSERT_TRUE(Receive(id, 0, 2).ok()) << id;
  const absl::Status early = Receive(kNumSteps + 1, 0, 7);
  ASSERT_TRUE(early.ok()) << early;
  const auto step = Start(kNumSteps + 1);
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  EXPECT_EQ(step->value(), 7);
}

TEST_F(LocalWorkerTest, ASecondTensorOfAnEdgeIsRefusedAlsoAfterTheFirstWasTaken) {
  RegisterSumOfEdges(2);
  const auto step = Start(1);
  ASSERT_TRUE(Receive(1, 0, 1).ok());
  EXPECT_EQ(Receive(1, 0, 5).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Receive(1, 1, 10).ok());
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  EXPECT_EQ(step->value(), 11);
}

TEST_F(LocalWorkerTest, AStepTakesMemoryForTheEdgesThatItReceivesOnly) {
  RegisterSumOfEdges(2, /*num_of_plan=*/INT_MAX);
  EXPECT_THAT(std::string(Receive(1, 2, 1).message()), HasSubstr("edge 2, which this task does not receive"));
  for (int id = 1; id <= EarlySteps::kMaxPerPlan; ++id) ASSERT_TRUE(Receive(id, 0, 1).ok());
  EXPECT_LT(worker_.num_early_bytes(), EarlySteps::kMaxPerPlan * 4096);
  const absl::Status refused = Receive(EarlySteps::kMaxPerPlan + 1, 0, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("256 steps of plan 5 have tensors here and have not started: at most 256"));
  // A step that is started is not refused, and makes room.
  const auto unexpected = Start(EarlySteps::kMaxPerPlan + 1);
  const auto step = Start(1);
  ASSERT_TRUE(Receive(1, 1, 10).ok());
  ASSERT_TRUE(step->Wait().ok()) << step->status;
  EXPECT_TRUE(Receive(EarlySteps::kMaxPerPlan + 2, 0, 1).ok());
  worker_.DeregisterPartition(kPlan);
  EXPECT_EQ(worker_.num_early_bytes(), 0);
  EXPECT_FALSE(unexpected->Wait().ok());
}

TEST_F(LocalWorkerTest, StepsOfASessionThatNeverStartAreBounded) {
  constexpr SessionId kSession = 7;
  absl::Status status;
  int num_kept = 0;
  for (PlanId plan = 100; plan < 110 && status.ok(); ++plan) {
    RegisterSumOfEdges(1, 0, plan, kSession);
    for (int id = 1; id <= 200 && status.ok(); ++id) {
      status = worker_.Receive(plan, id, 0, kOnlyTurn, Tensor::Scalar(1.0f), false);
      num_kept += status.ok();
    }
  }
  EXPECT_EQ(num_kept, EarlySteps::kMaxPerSession);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1024 steps of session 7 have tensors here"));
  RegisterSumOfEdges(1);  // of no session
  EXPECT_TRUE(Receive(1, 0, 1).ok());
}

TEST(EarlyStepsTest, TheirMemoryIsBounded) {
  EarlySteps steps;
  EXPECT_TRUE(steps.Add(1, 5, 0, 2 * EarlySteps::kMaxBytes).ok());  // one has what it needs
  const absl::Status refused = steps.Add(2, 6, 0, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("plan 6 takes 1: at most 268435456 together"));
  steps.Remove(1, 2 * EarlySteps::kMaxBytes);
  EXPECT_EQ(steps.num_bytes(), 0);
  EXPECT_TRUE(steps.Add(2, 6, 0, EarlySteps::kMaxBytes).ok());
}

TEST_F(LocalWorkerTest, EdgesAndResultsThatNoPlanHasAreRefused) {
  const auto refusal = [&](int num_results, int64_t edge) {
    auto graph = std::make_unique<Graph>(runtime_->ops());
    Add(*graph, {.op = kRecvOp,
                 .name = "recv",
                 .attrs = {{"tensor_type", DType::kFloat32},
                           {"tensor_name", "x:0"},
                           {"send_device", Cpu().ToString()},
                           {"send_device_incarnation", 0},
                           {"recv_device", Cpu().ToString()},
                           {kEdgeAttr, edge}}});
    PartitionSpec spec{.plan = kPlan, .num_edges = 1, .num_results = num_results};
    spec.graphs.push_back(std::move(graph));
    const absl::Status status = worker_.RegisterPartition(std::move(spec), absl::InfiniteFuture());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(0, 1), HasSubstr("receives edge 1 of a plan with 1 edges"));
  EXPECT_THAT(refusal(0, int64_t{1} << 32), HasSubstr("receives edge 4294967296 of a plan"));
  EXPECT_THAT(refusal(1 << 20, 0), HasSubstr("plan 5 is to give 1048576 results, its graphs have 0"));
}

// No session watches the clock here.
TEST_F(LocalWorkerTest, AStepWhoseDeadlineHasPassedIsNotRun) {
  RegisterSumOfEdges(2);
  ASSERT_TRUE(Receive(1, 0, 1).ok());
  ASSERT_TRUE(Receive(1, 1, 1).ok());
  const auto step = Start(1, absl::Now() - absl::Seconds(1));
  EXPECT_EQ(step->Wait().code(), absl::StatusCode::kDeadlineExceeded) << step->status;
  EXPECT_THAT(std::string(step->status.message()), HasSubstr("deadline"));
  EXPECT_FALSE(step->results[0].is_valid());
  EXPECT_EQ(worker_.num_running_steps(), 0);
  const auto next = Start(2, absl::Now() + absl::Minutes(5));
  ASSERT_TRUE(Receive(2, 0, 1).ok());
  ASSERT_TRUE(Receive(2, 1, 1).ok());
  EXPECT_TRUE(next->Wait().ok()) << next->status;
}

// The worker of a task that answers its part of a step when the test says so.
class AnsweringWorker final : public Worker {
 public:
  using Answer = std::function<void(AnsweringWorker& asked, Done done)>;
  AnsweringWorker(DeviceName task, Answer answer) : task_(std::move(task)), answer_(std::move(answer)) {}

  const DeviceName& task() const override { return task_; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time) override {
    DeviceAttributes cpu;
    cpu.name = task_;
    cpu.name.type = "CPU";
    cpu.name.index = 0;
    return std::vector<DeviceAttributes>{cpu};
  }
  absl::Status RegisterPartition(PartitionSpec, absl::Time) override { return absl::OkStatus(); }
  void RunPartition(const RunPartitionCall&, Done done) override { answer_(*this, std::move(done)); }
  void CancelStep(PlanId, int64_t, const absl::Status& reason) override { reasons.push_back(reason); }
  void DeregisterPartition(PlanId) override {}
  void EndSession(SessionId) override {}
  absl::Status ResetContainers(absl::Span<const std::string>, absl::Time) override {
    return absl::OkStatus();
  }

  std::vector<absl::Status> reasons;  // of cancellations

 private:
  const DeviceName task_;
  const Answer answer_;
};

// Two parts fail, each in its own way: the first to fail is why the step ended.
TEST(StepErrorsTest, TheFirstErrorIsTheSteps) {
  std::vector<std::pair<AnsweringWorker*, Worker::Done>> asked;
  std::vector<std::string> order;
  const auto answer_when_both_are_asked = [&](AnsweringWorker& worker, Worker::Done done) {
    asked.emplace_back(&worker, std::move(done));
    if (asked.size() < 2) return;
    for (auto& [who, reply] : asked) {
      order.push_back(who->task().ToString());
      reply(absl::InvalidArgumentError(absl::StrCat("broken on ", order.back())));
    }
  };
  AnsweringWorker a(DeviceName::Parse("/job:worker/replica:0/task:0").value(), answer_when_both_are_asked);
  AnsweringWorker b(DeviceName::Parse("/job:worker/replica:0/task:1").value(), answer_when_both_are_asked);
  auto runtime = Runtime::Create().value();
  GraphBuilder g(runtime->ops());
  std::vector<Node*> targets;
  for (const char* task : {"/job:worker/task:0", "/job:worker/task:1"}) {
    auto device = g.DeviceScope(task);
    const Output one = g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}});
    targets.push_back(g.AddNode("Neg", {one}));
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = Session::Create(g.graph(), {&a, &b}, runtime->kernels());
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Run({}, {}, {targets[0], targets[1]}).status();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_THAT(std::string(status.message()), HasSubstr("broken on " + order[0]));
  EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("broken on " + order[1])));
}

// A worker that forgot the plan when the session was closed says that it does not know it: the reason is that
// the session was closed.
TEST(StepErrorsTest, AStepThatItsClosingSessionCutsOffSaysSo) {
  Worker::Done answer;
  AnsweringWorker worker(DeviceName::Parse("/job:worker/replica:0/task:0").value(),
                         [&](AnsweringWorker&, Worker::Done done) { answer = std::move(done); });
  auto runtime = Runtime::Create().value();
  GraphBuilder g(runtime->ops());
  const Output one = g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}});
  Node* const target = g.AddNode("Neg", {one});
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  auto step = session->Prepare({}, {}, {target}).value()->Start({});
  ASSERT_TRUE(answer);
  session->Close();
  answer(absl::NotFoundError("plan 7 is not registered"));
  EXPECT_EQ(step->Await().status(), absl::CancelledError("the session was closed"));

  // The same answer while the session is open is an error of its own.
  session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  step = session->Prepare({}, {}, {target}).value()->Start({});
  answer(absl::NotFoundError("plan 7 is not registered"));
  EXPECT_EQ(step->Await().status().code(), absl::StatusCode::kNotFound);
}

// The checkpoint is complete by then.
TEST_F(LocalWorkerTest, AMergedCheckpointIsGoodAlsoWhereTheOldFolderCannotBeRemoved) {
  const std::string folder = NewTestDirectory();
  const auto disk = std::make_shared<FullDisk>(int64_t{1} << 20);
  disk->KeepFolders();
  auto graph = std::make_unique<Graph>(runtime_->ops());
  const auto constant = [&](const char* name, Tensor value) {
    const DType dtype = value.dtype();
    return Add(*graph,
               {.op = "Const", .name = name, .attrs = {{"value", std::move(value)}, {"dtype", dtype}}})
        ->output(0);
  };
  const std::string part = folder + "/parts/model";
  Node* const save = Add(*graph, {.op = "SaveV2",
                                  .name = "save",
                                  .inputs = {constant("prefix", Tensor::Scalar(part)),
                                             constant("names", Tensor::Vector<std::string>({"v"})),
                                             constant("slices", Tensor::Vector<std::string>({""})),
                                             std::vector<Output>{constant("v", Tensor::Scalar(1.0f))}}});
  Add(*graph, {.op = "MergeV2Checkpoints",
               .name = "merge",
               .inputs = {constant("parts", Tensor::Vector<std::string>({part})),
                          constant("whole", Tensor::Scalar(folder + "/model"))},
               .control_inputs = {save}});
  PartitionSpec spec;
  spec.plan = kPlan;
  spec.graphs.push_back(std::move(graph));
  spec.files = disk;
  const absl::Status registered = worker_.RegisterPartition(std::move(spec), absl::InfiniteFuture());
  ASSERT_TRUE(registered.ok()) << registered;
  RunningStep step;
  step.call = {.plan = kPlan, .step_id = 1};
  worker_.RunPartition(step.call, [&](absl::Status status) {
    step.status = status;
    step.done.Notify();
  });
  EXPECT_TRUE(step.Wait().ok()) << step.status;
  EXPECT_TRUE(PosixFileSystem().Exists(folder + "/model.index"));
  EXPECT_TRUE(PosixFileSystem().Exists(folder + "/parts")) << "removed after all";
}

TEST(RuntimeTest, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
  const auto before = signal(SIGXFSZ, SIG_DFL);
  ASSERT_TRUE(Runtime::Create().ok());
  EXPECT_EQ(signal(SIGXFSZ, before), SIG_IGN);
}

// What the program does with it is the program's.
TEST(RuntimeTest, AHandlerOfThatSignalStays) {
  const auto before = signal(SIGXFSZ, [](int) {});
  const auto own = signal(SIGXFSZ, [](int) {});
  signal(SIGXFSZ, own);
  ASSERT_TRUE(Runtime::Create().ok());
  EXPECT_EQ(signal(SIGXFSZ, before), own);
}

}  // namespace
}  // namespace weir
