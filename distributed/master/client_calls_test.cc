// What becomes of a client's calls: those that come twice, whose client goes away, and that must wait.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "distributed/master/open_work.h"
#include "distributed/master/test_master.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "ops/control_flow.h"
#include "session/forwarding_worker.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);

class ClientCallsTest : public ::testing::Test {
 protected:
  ClientCallsTest() : session_(client_.CreateSession(TestModel(client_.ops())).value()) {}

  std::shared_ptr<TestClientCall> Take(int64_t request_id, bool is_traced = false,
                                       absl::Time deadline = absl::InfiniteFuture()) {
    tensorflow::RunStepRequest step = Step(session_, {"take:0"});
    step.set_request_id(request_id);
    if (is_traced) step.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
    return client_.Start("RunStep", step.SerializeAsString(), deadline);
  }
  std::vector<float> FloatsOf(TestClientCall& call) {
    const absl::StatusOr<std::string> bytes = call.Await();
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    tensorflow::RunStepResponse response;
    EXPECT_TRUE(bytes.ok() && response.ParseFromString(*bytes));
    return Floats(response);
  }
  absl::Status Put() { return client_.Run(Step(session_, {}, {"put"})).status(); }
  int Size() {
    const auto response = client_.Run(Step(session_, {"size:0"}));
    EXPECT_TRUE(response.ok()) << response.status();
    return TensorFromProto(response->tensor(0).tensor())->scalar<int32_t>();
  }

  TestMaster client_;
  const std::string session_;
};

TEST_F(ClientCallsTest, ARepetitionWaitsWithTheFirst) {
  const auto first = Take(5), second = Take(5);
  ASSERT_TRUE(Put().ok());
  EXPECT_THAT(FloatsOf(*first), ElementsAre(7));
  EXPECT_THAT(FloatsOf(*second), ElementsAre(7));
}

TEST_F(ClientCallsTest, AStepOutlivesTheConnectionOfItsClient) {
  const auto first = Take(5);
  first->Cancel();
  ASSERT_FALSE(first->has_reply());
  const auto second = Take(5);
  second->Cancel();
  const auto third = Take(5);
  ASSERT_TRUE(Put().ok());
  ASSERT_TRUE(Put().ok());
  EXPECT_THAT(FloatsOf(*third), ElementsAre(7));
  EXPECT_EQ(Size(), 1) << "the step has run once";
}

TEST_F(ClientCallsTest, AStepThatNobodyAsksForAgainEnds) {
  const auto call = Take(5), repetition = Take(5);
  call->Cancel();
  repetition->Cancel();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(Put().ok());
  EXPECT_EQ(Size(), 1);
}

// Its next call may be on the way, and must find what it put into a queue.
TEST_F(ClientCallsTest, AStepEndsAtOnceWhenItsClientHasRunOutOfTime) {
  ASSERT_TRUE(Put().ok());
  EXPECT_EQ(Size(), 1);
  EXPECT_THAT(FloatsOf(*Take(4)), ElementsAre(7));  // all steps are compiled
  const auto taken = Take(5, /*is_traced=*/false, absl::Now() + absl::Milliseconds(900));
  ASSERT_FALSE(taken->has_reply());
  taken->Cancel();
  ASSERT_TRUE(Put().ok());
  EXPECT_EQ(Size(), 1);
}

TEST_F(ClientCallsTest, ACallableThatComesTwiceIsOne) {
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session_);
  make.set_request_id(31);
  make.mutable_options()->add_fetch("one:0");
  const auto first = client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make);
  const auto second = client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->handle(), second->handle());
  make.set_request_id(32);
  EXPECT_NE(client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make)->handle(), first->handle());
}

TEST_F(ClientCallsTest, ATracedStepIsGivenUp) {
  const auto call = Take(0, /*is_traced=*/true);
  call->Cancel();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted);
}

TEST_F(ClientCallsTest, TracedStepsHoldNoThreads) {
  std::vector<std::shared_ptr<TestClientCall>> calls;
  for (int i = 0; i < 300; ++i) calls.push_back(Take(0, /*is_traced=*/true));
  const auto other = client_.Run(Step(session_, {"one:0", "seven:0"}));  // is compiled
  EXPECT_TRUE(other.ok()) << other.status();
  for (const auto& call : calls) call->Cancel();
  for (const auto& call : calls) EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted);
}

TEST_F(ClientCallsTest, ManyFirstRunsAtOnceWait) {
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session_);
  GraphBuilder more(client_.ops());
  for (int i = 0; i < 600; ++i) {
    more.AddOp("Const", {},
               {{"value", Tensor::Scalar<float>(static_cast<float>(i))}, {"dtype", DType::kFloat32}},
               absl::StrCat("c", i));
  }
  *extend.mutable_graph_def() = GraphDefOf(more.graph());
  ASSERT_TRUE(client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend).ok());
  std::vector<std::shared_ptr<TestClientCall>> calls;
  for (int i = 0; i < 600; ++i) {
    calls.push_back(client_.Start("RunStep", Step(session_, {absl::StrCat("c", i)}).SerializeAsString()));
  }
  for (const auto& call : calls) EXPECT_TRUE(call->Await().ok()) << call->Await().status();
}

TEST_F(ClientCallsTest, TheGraphsOfAStepsDevicesAreInItsMetadata) {
  tensorflow::RunStepRequest step = Step(session_, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(2.0f), &step);
  step.mutable_options()->set_output_partition_graphs(true);
  const auto response = client_.Run(step);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response), ElementsAre(4));
  ASSERT_EQ(response->metadata().partition_graphs_size(), 1);
  std::vector<std::string> names;
  for (const auto& node : response->metadata().partition_graphs(0).node()) names.push_back(node.name());
  EXPECT_THAT(names, ::testing::Contains("twice"));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("take")));
}

// They are compiled again, though the step is known.
TEST_F(ClientCallsTest, TheGraphsOfAStepsDevicesAreNotMadeWhenTheCallIsOver) {
  tensorflow::RunStepRequest step = Step(session_, {"one:0"});
  ASSERT_TRUE(client_.Run(step).ok());
  step.mutable_options()->set_output_partition_graphs(true);
  const absl::Status late =
      client_.Start("RunStep", step.SerializeAsString(), absl::Now() - absl::Seconds(1))->Await().status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("has run out of time while it was compiled"));
  EXPECT_TRUE(client_.Run(step).ok());
}

TEST_F(ClientCallsTest, ThreadPoolsOfASessionAreRefused) {
  tensorflow::ConfigProto config;
  config.set_use_per_session_threads(true);
  EXPECT_EQ(client_.CreateSession({}, config).status(),
            absl::InvalidArgumentError("Distributed session does not support session thread pool options."));
  config.Clear();
  config.add_session_inter_op_thread_pool()->set_num_threads(2);
  EXPECT_EQ(client_.CreateSession({}, config).status().code(), absl::StatusCode::kInvalidArgument);
}

// A task that does not answer before it is there.
class AbsentTask final : public ForwardingWorker {
 public:
  explicit AbsentTask(Worker& worker) : ForwardingWorker(&worker) {}
  StepOwners* owners() override { return nullptr; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override {
    WEIR_RETURN_IF_ERROR(AwaitPresence(deadline));
    return worker_->ListDevices(deadline);
  }
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override {
    WEIR_RETURN_IF_ERROR(AwaitPresence(deadline));
    return worker_->ResetContainers(containers, deadline);
  }
  void Come() {
    absl::MutexLock lock(&mutex_);
    is_there_ = true;
  }
  // Until when the longest of its questions waits.
  absl::Time latest_deadline() const {
    absl::MutexLock lock(&mutex_);
    return latest_deadline_;
  }
  void AwaitQuestion() {
    absl::MutexLock lock(&mutex_);
    RealEnvironment().Await(mutex_,
                            absl::Condition(
                                +[](int* num_asked) { return *num_asked > 0; }, &num_asked_),
                            RealEnvironment().Now() + kPatience);
  }

 private:
  absl::Status AwaitPresence(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    ++num_asked_;
    latest_deadline_ = std::max(latest_deadline_, deadline);
    if (RealEnvironment().Await(mutex_, absl::Condition(&is_there_), deadline)) return absl::OkStatus();
    return absl::DeadlineExceededError("/job:ps/task:0 has not answered");
  }

  mutable absl::Mutex mutex_;
  bool is_there_ ABSL_GUARDED_BY(mutex_) = false;
  int num_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time latest_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

class AbsentTaskTest : public ::testing::Test {
 protected:
  std::unique_ptr<Runtime> runtime_ = Runtime::Create({.job = "ps", .num_threads = 1}).value();
  LocalWorker ps_{*runtime_, runtime_->task()};
  AbsentTask absent_{ps_};
  std::atomic<bool> is_done_{false};
  TestMaster client_{{.is_done = [this](const Worker& worker) { return is_done_ && &worker == &absent_; }},
                     {.job = "local", .num_threads = 1},
                     {&absent_}};
  const std::string create_ = tensorflow::CreateSessionRequest().SerializeAsString();
};

// When the answer comes depends on the machine as well, so what is looked at is how long the task is waited
// for.
TEST_F(AbsentTaskTest, IsWaitedForAndNamedBeforeTheClientGivesUp) {
  const absl::Time deadline = absl::Now() + absl::Seconds(4);
  const auto call = client_.Start("CreateSession", create_, deadline);
  const absl::Status status = call->Await().status();
  EXPECT_LT(absent_.latest_deadline(), deadline);
  EXPECT_GT(absent_.latest_deadline(), deadline - absl::Seconds(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("/job:ps"));
}

// Ten seconds, however many wait for it.
TEST_F(AbsentTaskTest, IsNamedOnTheServerAfterAWhile) {
  constexpr int kNumClients = 100;
  testing::internal::CaptureStderr();
  std::vector<std::shared_ptr<TestClientCall>> waiting;
  for (int i = 0; i < kNumClients; ++i) waiting.push_back(client_.Start("CreateSession", create_));
  absl::SleepFor(absl::Seconds(20));
  absent_.Come();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("waits: /job:ps/task:0 has not answered"));
  const std::vector<std::string> lines = absl::StrSplit(said, " of a TensorFlow client waits: ");
  EXPECT_EQ(lines.size(), kNumClients + 1) << said;
  for (const auto& call : waiting) EXPECT_TRUE(call->Await().ok()) << call->Await().status();
}

TEST_F(AbsentTaskTest, DoesNotKeepOthersFromTheirSessions) {
  std::vector<std::shared_ptr<TestClientCall>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(client_.Start("CreateSession", create_));
  tensorflow::ConfigProto config;
  config.add_device_filters("/job:local");
  for (int i = 0; i < 3; ++i) {
    const auto session = client_.CreateSession(TestModel(client_.ops()), config);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_THAT(Floats(client_.Run(Step(*session, {"one:0"})).value()), ElementsAre(1));
  }
  absent_.Come();
  for (const auto& call : waiting) EXPECT_TRUE(call->Await().ok()) << call->Await().status();
}

TEST_F(AbsentTaskTest, QuestionsToItDoNotKeepOthersFromTheirSessions) {
  tensorflow::ConfigProto config;
  config.add_device_filters("/job:local");
  std::vector<std::shared_ptr<TestClientCall>> resets, lists;
  for (int i = 0; i < 100; ++i) resets.push_back(client_.Start("Reset", ""));
  for (int i = 0; i < 100; ++i) lists.push_back(client_.Start("ListDevices", ""));
  EXPECT_TRUE(client_.CreateSession({}, config).ok());
  const bool all_wait =
      std::none_of(resets.begin(), resets.end(), [](auto& call) { return call->has_reply(); });
  absent_.Come();
  EXPECT_TRUE(all_wait) << "the session came after the time for the absent task";
  for (const auto& call : resets) EXPECT_TRUE(call->Await().ok()) << call->Await().status();
  for (const auto& call : lists) {
    const absl::StatusOr<std::string> bytes = call->Await();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    tensorflow::ListDevicesResponse response;
    ASSERT_TRUE(response.ParseFromString(*bytes));
    ASSERT_EQ(response.local_device_size(), 2);
    EXPECT_THAT(response.local_device(0).name(), HasSubstr("/job:local"));
    EXPECT_THAT(response.local_device(1).name(), HasSubstr("/job:ps"));
  }
}

TEST_F(AbsentTaskTest, IsNotAskedForAClientThatHasGone) {
  for (const char* method : {"ListDevices", "Reset"}) {
    const auto call = client_.Start(method, "");
    absent_.AwaitQuestion();
    call->Cancel();
    EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted) << call->Await().status();
  }
}

// A worker whose program has ended does not come again: those that are slower train on without it.
TEST_F(AbsentTaskTest, IsNotAwaitedWhenItIsDone) {
  const auto session = client_.Start("CreateSession", create_);
  absent_.AwaitQuestion();
  EXPECT_FALSE(session->has_reply());
  is_done_ = true;
  const absl::StatusOr<std::string> created = session->Await();
  EXPECT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(client_.Start("Reset", "")->Await().ok());
  const absl::StatusOr<std::string> bytes = client_.Start("ListDevices", "")->Await();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  tensorflow::ListDevicesResponse response;
  ASSERT_TRUE(response.ParseFromString(*bytes));
  ASSERT_EQ(response.local_device_size(), 1);
  EXPECT_THAT(response.local_device(0).name(), HasSubstr("/job:local"));
}

TEST_F(AbsentTaskTest, LeavesNoSessionToAClientThatHasGone) {
  const auto call = client_.Start("CreateSession", create_);
  absent_.AwaitQuestion();
  call->Cancel();
  absent_.Come();
  EXPECT_FALSE(call->Await().ok());
  EXPECT_EQ(client_.master().num_sessions(), 0);
}

TEST(ClientLimitsTest, AnExtensionThatFailsTakesNothing) {
  MasterOptions options;
  options.limits.bytes = 1 << 20;
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session);
  GraphBuilder more(client.ops());
  more.AddOp("Const", {}, {{"value", Tensor(DType::kFloat32, Shape({20'000}))}, {"dtype", DType::kFloat32}},
             "c");
  *extend.mutable_graph_def() = GraphDefOf(more.graph());
  tensorflow::ExtendSessionRequest cyclic = extend;
  for (const char* name : {"a", "b"}) {
    tensorflow::NodeDef* node = cyclic.mutable_graph_def()->add_node();
    node->set_name(name);
    node->set_op("Identity");
    node->add_input(name[0] == 'a' ? "b" : "a");
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  }
  for (int i = 0; i < 30; ++i) {
    const auto refused = client.Call<tensorflow::ExtendSessionResponse>("ExtendSession", cyclic);
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << i << " " << refused.status();
  }
  const auto extended = client.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend);
  EXPECT_TRUE(extended.ok()) << extended.status();
}

TEST(ClientLimitsTest, AnExtensionCountsAsWhatItIsInMemory) {
  MasterOptions options;
  options.limits.bytes = 4 << 20;
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session);
  for (int i = 0; i < 100'000; ++i) extend.mutable_graph_def()->add_node();  // two bytes each
  const absl::Status refused =
      client.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  extend.clear_graph_def();
  EXPECT_TRUE(client.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend).ok());
}

// Its graph takes a few bytes for each node of the message, and some thousand while it is compiled.
TEST(ClientLimitsTest, WhatCompilingTakesCounts) {
  MasterOptions options;
  options.limits.bytes = 2 << 20;
  TestMaster client(options);
  const std::string small = client.CreateSession(TestModel(client.ops())).value();
  GraphBuilder g(client.ops());
  Output last = g.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(1.0f)}, {"dtype", DType::kFloat32}});
  for (int i = 0; i < 2000; ++i) last = g.AddOp("Neg", {last});
  const std::string large = client.CreateSession(GraphDefOf(g.graph())).value();
  for (int i = 0; i < 3; ++i) {
    const absl::Status refused = client.Run(Step(large, {last.name()})).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("compiling a step of session"));
    EXPECT_TRUE(client.Run(Step(small, {"one:0"})).ok()) << "others go on";
  }
}

TEST(ClientLimitsTest, CompiledStepsCount) {
  MasterOptions options;
  options.limits.plans = 2;
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(client.Run(Step(session, {"one:0"})).ok());
    EXPECT_TRUE(client.Run(Step(session, {"seven:0"})).ok());
  }
  const absl::Status third = client.Run(Step(session, {"one:0", "seven:0"})).status();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted) << third;
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  ASSERT_TRUE(client.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok());
  EXPECT_TRUE(client.Run(Step(client.CreateSession(TestModel(client.ops())).value(), {"one:0"})).ok());
}

// Steps that wait for ever, and take all there is, end with their session.
TEST(ClientLimitsTest, ASessionCanBeClosedWhenNothingIsLeft) {
  MasterOptions options;
  options.limits.steps = 3;
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  std::vector<std::shared_ptr<TestClientCall>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(client.Start("RunStep", Step(session, {"take:0"}).SerializeAsString()));
  }
  const absl::Status refused = client.Run(Step(session, {"one:0"})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  const auto closed = client.Call<tensorflow::CloseSessionResponse>("CloseSession", close);
  EXPECT_TRUE(closed.ok()) << closed.status();
  if (!closed.ok()) {
    for (const auto& call : waiting) call->Cancel();
  }
  for (const auto& call : waiting) EXPECT_FALSE(call->Await().ok());
}

// The last answer of a session that rests is kept for a client that asks again; nobody else may starve for
// it.
TEST(ClientLimitsTest, AnswersThatAreOnlyKeptMakeRoom) {
  MasterOptions options;
  options.limits.bytes = 64 << 20;
  TestMaster client(options);
  const auto large_step = [&](int64_t id) {
    const std::string session = client.CreateSession(TestModel(client.ops())).value();
    tensorflow::RunStepRequest request = Step(session, {"twice:0"});
    AddFeed("x:0", Tensor(DType::kFloat32, {4 << 20}), &request);
    request.set_request_id(id);
    return request;
  };
  const tensorflow::RunStepRequest first = large_step(1);
  ASSERT_TRUE(client.Run(first).ok());
  EXPECT_TRUE(client.Run(first).ok()) << "it is kept";
  for (int64_t id = 2; id < 8; ++id) {
    const absl::Status status = client.Run(large_step(id)).status();
    EXPECT_TRUE(status.ok()) << "session " << id << ": " << status;
  }
  EXPECT_EQ(client.Run(first).status().code(), absl::StatusCode::kAborted) << "the oldest has made room";
}

TEST(ClientLimitsTest, AFeedIsNotMadeBeforeThereIsRoomForIt) {
  MasterOptions options;
  options.limits.bytes = 64 << 20;
  TestMaster client(options);
  tensorflow::RunStepRequest request =
      Step(client.CreateSession(TestModel(client.ops())).value(), {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &request);
  tensorflow::TensorProto* feed = request.mutable_feed(0)->mutable_tensor();
  feed->clear_tensor_content();
  feed->add_float_val(1);
  feed->mutable_tensor_shape()->add_dim()->set_size(1 << 28);
  const int64_t before = PeakBytes();
  EXPECT_EQ(client.Run(request).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(PeakBytes() - before, 256 << 20);
}

// A loop that never ends.
tensorflow::GraphDef EndlessLoop(const OpRegistry& ops) {
  GraphBuilder g(ops);
  const auto number = [&](int32_t value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(value)}, {"dtype", DType::kInt32}});
  };
  const Output last = While(
      g, {number(0)},
      [&](const std::vector<Output>& i) {
        return g.AddOp("GreaterEqual", {i[0], number(0)});
      },
      [&](const std::vector<Output>& i) {
        return std::vector{g.AddOp("FloorMod", {g.AddOp("AddV2", {i[0], number(1)}), number(100)})};
      })[0];
  g.AddOp("Identity", {last}, {}, "last");
  EXPECT_TRUE(g.status().ok()) << g.status();
  return GraphDefOf(g.graph());
}

// One kernel, which takes long.
tensorflow::GraphDef LongKernel(const OpRegistry& ops) {
  GraphBuilder g(ops);
  const auto constant = [&](Tensor value) {
    const DType dtype = value.dtype();
    return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  };
  const Output logits = g.AddOp(
      "ExpandDims", {constant(Tensor::Vector<float>({1, 2, 3})), constant(Tensor::Scalar<int32_t>(0))});
  const Output samples = g.AddOp("Multinomial", {logits, constant(Tensor::Scalar<int32_t>(1 << 28))},
                                 {{"output_dtype", DType::kInt32}});
  g.AddOp("Max", {samples, constant(Tensor::Vector<int32_t>({0, 1}))}, {}, "last");
  EXPECT_TRUE(g.status().ok()) << g.status();
  return GraphDefOf(g.graph());
}

// A step of one device computes on the thread that read the request.
void ExpectEndsWithItsClient(tensorflow::GraphDef (*make_graph)(const OpRegistry& ops)) {
  TestMaster client;
  const std::string session = client.CreateSession(make_graph(client.ops())).value();
  tensorflow::RunStepRequest step = Step(session, {"last:0"});
  step.mutable_options()->set_timeout_in_ms(60'000);
  for (int i = 0; i < 2; ++i) {  // first it is compiled, on another thread
    const auto call = std::make_shared<TestClientCall>("RunStep", step.SerializeAsString(),
                                                       RealEnvironment().Now() + absl::Minutes(2));
    const auto reader = RealEnvironment().StartThread([&] { client.master().Handle(call); });
    ASSERT_TRUE(reader.ok());
    while (client.worker().num_running_steps() == 0) absl::SleepFor(absl::Milliseconds(1));
    call->Cancel();
    EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted) << call->Await().status();
    (*reader)->Join();
    while (client.worker().num_running_steps() > 0) absl::SleepFor(absl::Milliseconds(1));
  }
}

// Threads that take calls, as many as may compute, and one that must come back.
TEST(ComputingStepTest, ManyLoopsKeepNobodyFromEndingThem) {
  TestMaster client;
  const std::string session = client.CreateSession(EndlessLoop(client.ops())).value();
  const std::string step = Step(session, {"last:0"}).SerializeAsString();
  std::vector<std::shared_ptr<TestClientCall>> calls = {client.Start("RunStep", step)};  // is compiled first
  while (client.worker().num_running_steps() == 0) absl::SleepFor(absl::Milliseconds(1));
  std::vector<std::unique_ptr<StartedThread>> readers;
  for (int i = 0; i < OpenWork::kMaxComputingHere; ++i) {
    calls.push_back(std::make_shared<TestClientCall>("RunStep", step, absl::InfiniteFuture()));
    readers.push_back(
        RealEnvironment().StartThread([&, call = calls.back()] { client.master().Handle(call); }).value());
    while (client.worker().num_running_steps() < i + 2) absl::SleepFor(absl::Milliseconds(1));
  }
  for (int i = 0; i < 2 * OpenWork::kMaxComputing; ++i) calls.push_back(client.Start("RunStep", step));
  const std::string other = client.CreateSession(TestModel(client.ops())).value();
  for (const std::string& handle : {session, other}) {
    tensorflow::CloseSessionRequest close;
    close.set_session_handle(handle);
    EXPECT_TRUE(client.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok());
  }
  for (const auto& call : calls) EXPECT_FALSE(call->Await().ok());
  for (const auto& reader : readers) reader->Join();
}

TEST(ComputingStepTest, ALoopEndsWithItsClient) { ExpectEndsWithItsClient(&EndlessLoop); }
TEST(ComputingStepTest, ALongKernelEndsWithItsClient) { ExpectEndsWithItsClient(&LongKernel); }

}  // namespace
}  // namespace weir
