// Clusters in which something goes wrong: messages are lost or repeated, tasks are silent, leave or restart.
#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/replica_device_setter.h"
#include "distributed/test_gate.h"
#include "distributed/test_server.h"
#include "distributed/timing/timer_queue.h"
#include "gmock/gmock.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

// y = x + x on the ps, z = y + y on the worker: y crosses in pieces.
struct LargeTensorModel {
  explicit LargeTensorModel(Server& server) : g(server.runtime().ops()), input(DType::kFloat32, {kSize}) {
    for (int64_t i = 0; i < kSize; ++i) input.flat<float>()[i] = static_cast<float>(i % 1000);
    {
      auto device = g.DeviceScope("/job:ps/task:0");
      x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}}, "x");
      y = g.AddOp("AddV2", {x, x});
    }
    auto device = g.DeviceScope("/job:worker/task:0");
    z = g.AddOp("AddV2", {y, y});
  }
  void ExpectRight(const absl::StatusOr<std::vector<Tensor>>& result) const {
    ASSERT_TRUE(result.ok()) << result.status();
    for (int64_t i = 0; i < kSize; ++i)
      ASSERT_EQ((*result)[0].flat<float>()[i], 4 * input.flat<float>()[i]) << i;
  }

  static constexpr int64_t kSize = 5'000'000;  // 20 MB: five pieces, the last one short
  GraphBuilder g;
  Tensor input;
  Output x, y, z;
};

TEST_P(ServerTest, PiecesMayBeRepeatedLateAndOutOfOrder) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  LargeTensorModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  for (const Fault::Action action :
       {Fault::Action::kDuplicate, Fault::Action::kDropReply, Fault::Action::kClose, Fault::Action::kDelay}) {
    for (const int skip : {0, 2, 4}) {
      faults_.Clear();
      const int hits = faults_.num_hits();
      faults_.Add({.action = action,
                   .method = "PushPiece",
                   .delay = absl::Milliseconds(30),
                   .skip = skip,
                   .count = 1});
      model.ExpectRight(session->Run({{model.x, model.input}}, {model.z}));
      EXPECT_EQ(faults_.num_hits(), hits + 1) << skip;
    }
  }
}

// The part that sends is done long before: it is the step's owner who must hear of it.
TEST_P(ServerTest, APushThatFailsEndsItsStep) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  for (Server* const sender : {w0.get(), w1.get()}) {
    CounterModel model(*sender);
    SessionTarget target = w0->target_on_all_tasks();  // the third worker is not there
    std::erase_if(target.workers, [](Worker* worker) { return worker->task().task == 2; });
    auto session = Session::Create(model.g.graph(), target.workers, w0->runtime().kernels(),
                                   {.default_task = w0->runtime().task()});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({}, {}, {model.init}).ok());
    faults_.Add({.action = Fault::Action::kClose, .method = "PushTensors", .job = "ps"});
    // The ps reads, too, so its part does not begin with the tensor.
    const absl::Status status = (*session)->Run({}, {model.read}, {model.add}).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0"));
    faults_.Clear();
    EXPECT_TRUE((*session)->Run({}, {}, {model.add}).ok());
  }
}

// For longer than the call is repeated: the session is made anew, and runs its step again.
TEST_P(ServerTest, AStepWhoseAnswersAreLostIsAppliedOnce) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops(), ReplicaDeviceSetter(w0->task()));
  const ModelVariable step = GlobalStep(g);
  Node* train = nullptr;
  {
    const auto beside = g.ColocationScope(step.handle.node);
    train = g.AddNode("AssignAddVariableOp", {step.handle, Constant(g, Tensor::Scalar(int64_t{1}))});
  }
  auto session = MonitoredTrainingSession(g, {.target = w0->target(), .stops_on_sigterm = false});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int64_t i = 1; i <= 2; ++i) {
    const int hits = faults_.num_hits();
    faults_.Add({.action = Fault::Action::kDropReply, .method = "RunPartition", .job = "ps"});
    std::thread heals([&] {
      absl::SleepFor(absl::Milliseconds(1500));
      faults_.Clear();
    });
    const auto value = (*session)->Run({}, {step.value}, {train});
    heals.join();
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_GT(faults_.num_hits(), hits + 1);
    EXPECT_EQ((*session)->GlobalStep().value(), i);
  }
  ASSERT_TRUE((*session)->Run({}, {}, {train}).ok());
  EXPECT_EQ((*session)->GlobalStep().value(), 3);
}

TEST_P(ServerTest, APieceThatNeverComesEndsTheStepAtItsDeadlineAndItsMemoryIsFree) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  LargeTensorModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  const auto run = [&] {
    return session->Run({{model.x, model.input}}, {model.z}, {}, {.timeout = absl::Milliseconds(400)});
  };
  model.ExpectRight(session->Run({{model.x, model.input}}, {model.z}));
  const int64_t before = HostAllocator().num_bytes_in_use();
  faults_.Add({.action = Fault::Action::kDropRequest, .method = "PushPiece", .skip = 3, .count = 1});
  EXPECT_TRUE(absl::IsDeadlineExceeded(run().status()));
  // The piece that was lost keeps the sender's tensor until the message is given up; the receiver keeps
  // nothing.
  const int64_t tensor_bytes = static_cast<int64_t>(model.input.num_bytes());
  const auto in_use = [&] { return HostAllocator().num_bytes_in_use() - before; };
  for (int i = 0; i < 1000 && in_use() > tensor_bytes * 3 / 2; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_LT(in_use(), tensor_bytes * 3 / 2);
  // Pieces that come when the step is over are not kept either.
  faults_.Clear();
  faults_.Add(
      {.action = Fault::Action::kDelay, .method = "PushPiece", .delay = absl::Milliseconds(600), .count = 5});
  EXPECT_TRUE(absl::IsDeadlineExceeded(run().status()));
  absl::SleepFor(absl::Milliseconds(400));
  for (int i = 0; i < 1000 && in_use() > tensor_bytes * 3 / 2; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_LT(in_use(), tensor_bytes * 3 / 2);
  faults_.Clear();
  model.ExpectRight(session->Run({{model.x, model.input}}, {model.z}));
}

TEST_P(ServerTest, TheOthersLearnWhatAWorkerHasFailedWith) {
  lease_ = absl::Seconds(5);
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  for (Server* const worker : {w0.get(), w1.get()}) {
    CounterModel model(*worker);
    auto session = worker->CreateSession(model.g.graph()).value();
    ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  }
  const Incarnation life = w0->target().life();
  w0->Shutdown(absl::NotFoundError("there is no file 'train.records'"));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (Server* const other : {ps.get(), w1.get()}) {
    const Membership& members = other->membership();
    while (members.LossOf({"worker", 0}, life).ok() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(members.LossOf({"worker", 0}, life).message(),
              "worker:0 was lost: it has failed: there is no file 'train.records'");
  }
}

TEST_P(ServerTest, ThePsLeavesWhenAllWorkersAreDone) {
  auto ps = Start({"ps", 0});
  std::atomic<bool> left{false};
  std::thread join([&] {
    EXPECT_EQ(ps->Join(), 0);
    left = true;
  });
  auto w0 = Start({"worker", 0}), w1 = Start({"worker", 1}), w2 = Start({"worker", 2});
  w0->Shutdown();
  w1.reset();
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(left);
  w2.reset();
  join.join();
}

// If its last word were lost, the ps would wait for it as for one that may be started again.
TEST_P(ServerTest, APsThatIsSilentForAWhileHearsThatATaskIsDone) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  ASSERT_TRUE(w0->CreateSession(model.g.graph()).ok());
  faults_.Add({.action = Fault::Action::kDropRequest, .method = "JobDone", .job = "ps"});
  std::thread heals([&] {
    absl::SleepFor(Server::kFarewell + absl::Seconds(2));
    faults_.Clear();
  });
  w0->Shutdown();
  heals.join();
  // Its answer comes before it notes what it has heard.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ps->membership().state({"worker", 0}) != Membership::State::kDone && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ps->membership().state({"worker", 0}), Membership::State::kDone);
}

TEST_P(ServerTest, ARestartedPsIsNoticedAndANewSessionWorks) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  ps->Shutdown(absl::UnavailableError("killed"));
  ps.reset();
  const absl::Status gone = session->Run({}, {model.doubled}).status();
  EXPECT_TRUE(IsRecoverable(gone)) << gone;
  ps = Start({"ps", 0});
  const absl::Status restarted = session->Run({}, {model.doubled}).status();
  EXPECT_TRUE(IsRecoverable(restarted)) << restarted;
  // The new ps is known by now, but not to this session, which would find it without a variable.
  ASSERT_TRUE(w0->CreateSession(model.g.graph()).ok());
  const absl::Status known = session->Run({}, {model.read}).status();
  EXPECT_TRUE(absl::IsAborted(known)) << known;
  session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  const auto result = session->Run({}, {model.doubled});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Values((*result)[0]), ElementsAre(2, 4));
}

TEST_P(ServerTest, ALostPeerEndsTheStepThatWaitsForIt) {
  lease_ = absl::Seconds(5);
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  if (GetParam()) return;  // a peer that is silent but connected needs faults
  faults_.Add({.action = Fault::Action::kDropRequest, .job = "ps"});
  const absl::Status status = session->Run({}, {model.doubled}, {}, {.timeout = absl::Minutes(2)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status << ", not at its deadline";
  EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0 was lost: no sign of life for 5s"));
  faults_.Clear();  // nobody waits at the end
}

// Nobody reports its loss a second time.
TEST_P(ServerTest, AStepThatBeginsWhenAPeerIsLostEnds) {
  if (GetParam()) return;  // needs faults
  lease_ = absl::Seconds(5);
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  ASSERT_TRUE(session->Run({}, {model.doubled}).ok());
  faults_.Add({.action = Fault::Action::kDropRequest});  // in both directions: neither hears the other
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (w0->membership().state({"ps", 0}) != Membership::State::kLost && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  const absl::Status status = session->Run({}, {model.doubled}, {}, {.timeout = absl::Seconds(30)}).status();
  EXPECT_TRUE(IsRecoverable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0 was lost: no sign of life for 5s"));
  faults_.Clear();
}

// Keeps some calls from being delivered. As over gRPC, a call that is given up ends a moment later, on
// another thread.
class Holds final : public Transport {
 public:
  Holds(Transport& wrapped, std::set<std::string> methods)
      : wrapped_(wrapped), methods_(std::move(methods)) {}

  std::atomic<bool> is_holding{false};
  std::atomic<int> num_held{0};

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    absl::StatusOr<std::unique_ptr<Channel>> channel = wrapped_.Connect(peer, address);
    if (!channel.ok()) return channel;
    return std::make_unique<HoldingChannel>(*this, *std::move(channel));
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return wrapped_.Listen(address, std::move(handler), std::move(placement));
  }

 private:
  class Held final : public OutgoingCall {
   public:
    Held(Holds& transport, Channel::Done done) : transport_(transport), done_(std::move(done)) {}
    void Cancel() override {
      transport_.timers_.Schedule(absl::Now() + absl::Milliseconds(20),
                                  [done = std::make_shared<Channel::Done>(std::move(done_))] {
                                    (*done)(absl::CancelledError("given up"));
                                  });
    }

   private:
    Holds& transport_;
    Channel::Done done_;
  };
  class HoldingChannel final : public Channel {
   public:
    HoldingChannel(Holds& transport, std::unique_ptr<Channel> channel)
        : transport_(transport), channel_(std::move(channel)) {}
    std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                       Done done) override {
      if (transport_.is_holding && transport_.methods_.count(std::string(method)) > 0) {
        ++transport_.num_held;
        return std::make_shared<Held>(transport_, std::move(done));
      }
      return channel_->Call(method, std::move(request), options, std::move(done));
    }
    const TaskName& peer() const override { return channel_->peer(); }
    const std::string& address() const override { return channel_->address(); }

   private:
    Holds& transport_;
    const std::unique_ptr<Channel> channel_;
  };

  Transport& wrapped_;
  const std::set<std::string> methods_;
  TimerQueue timers_;
};

// Another task has answered its part of the step, and gives the owner up while the tensor is under way. The
// owner lives, and would wait for it until its deadline.
TEST_P(ServerTest, AnOwnerThatWasOnlySilentHearsThatItsTensorWasGivenUp) {
  if (GetParam()) return;  // needs faults
  lease_ = absl::Seconds(5);
  Holds silent(faults_, {"/weir.Worker/Join", "/weir.Worker/Watch"}),
      late(faults_, {"/weir.Worker/PushTensors"});
  const auto start = [&](int worker, Transport& transport) {
    ServerOptions options;
    options.lease = lease_;
    options.num_threads = 1;
    options.transport = &transport;
    return Server::Start(TaskConfig::Create(cluster_, {"worker", worker}).value(), options).value();
  };
  auto ps = Start({"ps", 0}), w0 = start(0, silent), w1 = start(1, late);
  GraphBuilder g(w0->runtime().ops());
  Output input, sent, sum;
  {
    auto device = g.DeviceScope("/job:worker/task:1");
    input = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}});
    sent = g.AddOp("AddV2", {input, input});
  }
  {
    auto device = g.DeviceScope("/job:worker/task:0");
    sum = g.AddOp("AddV2", {sent, sent});
  }
  SessionTarget target = w0->target_on_all_tasks();  // the third worker is not there
  std::erase_if(target.workers, [](Worker* worker) { return worker->task().task == 2; });
  auto session = Session::Create(g.graph(), target.workers, w0->runtime().kernels(),
                                 {.default_task = w0->runtime().task()})
                     .value();
  const auto run = [&] {
    // Too large to come with the answer.
    Tensor ones(DType::kFloat32, {1000});
    for (float& value : ones.flat<float>()) value = 1;
    return session->Run({{input, ones}}, {sum}, {}, {.timeout = absl::Minutes(1)}).status();
  };
  ASSERT_TRUE(run().ok());
  late.is_holding = true;
  absl::Status status;
  std::thread step([&] { status = run(); });
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (late.num_held == 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GT(late.num_held, 0) << "the tensor is not under way";
  silent.is_holding = true;  // the authority hears nothing of the owner, and says so
  bool was_lost = false;     // until the authority asks it the next time
  while (!was_lost && absl::Now() < give_up) {
    was_lost = w1->membership().state({"worker", 0}) == Membership::State::kLost;
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(was_lost);
  silent.is_holding = false;
  step.join();
  late.is_holding = false;
  EXPECT_TRUE(IsRecoverable(status)) << status;
}

// It tells its clients why it ends their steps, which is no reason for them to end.
TEST_P(ServerTest, ASupersededPsIsALostPsToItsClients) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  ASSERT_TRUE(session->Run({}, {model.doubled}, {model.add}).ok());
  // The ps still waits for what the worker computes.
  faults_.Add(
      {.action = Fault::Action::kDelay, .method = "PushTensors", .job = "ps", .delay = absl::Seconds(2)});
  faults_.Add({.action = Fault::Action::kDropRequest, .method = "PushTensors", .job = "worker"});
  absl::Status status;
  std::thread step([&] {
    status = session->Run({}, {model.doubled}, {model.add}, {.timeout = absl::Seconds(20)}).status();
  });
  const absl::Time give_up = absl::Now() + absl::Seconds(15);
  while (ps->local_worker().num_running_steps() == 0 && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  ps->membership().Supersede(ps->membership().incarnation() + 5, {"worker", 1});
  step.join();
  EXPECT_TRUE(IsRecoverable(status)) << status;
  EXPECT_NE(ExitCodeFor(status), kExitSuperseded) << status;
  EXPECT_TRUE(w0->membership().superseded().ok());
}

// The task that runs the session slept for longer than its lease, in the middle of a step, and wakes up.
TEST_P(ServerTest, AStepOfATaskThatWasDeclaredLostMayBeRecoveredFrom) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops());
  Output never;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output queue =
        g.AddOp("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat32}}});
    never = g.AddOp("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat32}}});
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  absl::Status status;
  std::thread step([&] { status = session->Run({}, {never}, {}, {.timeout = absl::Minutes(2)}).status(); });
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (ps->local_worker().num_running_steps() == 0 && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_EQ(ps->local_worker().num_running_steps(), 1);
  // As when the lease ran out: this life is over for the ps.
  EXPECT_TRUE(ps->membership().OnSignOfLife({"worker", 0}, w0->membership().incarnation() + 1).ok());
  step.join();
  EXPECT_TRUE(IsRecoverable(status)) << status;
}

// Whoever restores the variables keeps the others from training on them, as long as it lives.
TEST_P(ServerTest, ARestoreEndsWithTheLifeOfWhoBeganIt) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  CounterModel model(*w1);
  auto trainer = w1->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(trainer->Run({}, {}, {model.init}).ok());
  RunOptions step;
  step.logical_step = {.writer = 5, .number = 1, .settled_below = 1};
  Worker* const restoring = w0->target().workers[1];
  ASSERT_TRUE(restoring->BeginRestore(7, absl::Now() + absl::Seconds(20)).ok());
  EXPECT_TRUE(absl::IsAborted(trainer->Run({}, {}, {model.add}, step).status()));
  EXPECT_TRUE(ps->membership().OnSignOfLife({"worker", 0}, w0->membership().incarnation() + 1).ok());
  const absl::Status trained = trainer->Run({}, {}, {model.add}, step).status();
  EXPECT_TRUE(trained.ok()) << trained;
}

TEST_P(ServerTest, StepsThatComputeForLongDoNotSilenceTheTask) {
  lease_ = absl::Seconds(5);
  constexpr int kNumSteps = 40;  // more than a server has threads
  OpRegistry ops;
  ASSERT_TRUE(AddPassGate(ops, &options_).ok());
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  Gate gate;
  GraphBuilder g(ops);
  Output value;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    value = g.AddOp("PassGate", {Constant(g, gate.address())});
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  std::atomic<int> num_over{0};
  std::vector<std::thread> steps;
  for (int i = 0; i < kNumSteps; ++i) {
    steps.emplace_back([&] {
      const absl::Status status = session->Run({}, {value}, {}, {.timeout = absl::Seconds(60)}).status();
      EXPECT_TRUE(status.ok()) << status;
      ++num_over;
    });
  }
  absl::SleepFor(lease_ * 3 / 2);
  EXPECT_EQ(num_over, 0);
  EXPECT_EQ(w0->membership().state({"ps", 0}), Membership::State::kAlive);
  EXPECT_EQ(ps->membership().state({"worker", 0}), Membership::State::kAlive);
  EXPECT_TRUE(w1->CreateSession(g.graph(), {.operation_timeout = absl::Seconds(10)}).ok());
  gate.Open();
  for (std::thread& step : steps) step.join();
  EXPECT_EQ(num_over, kNumSteps);
}

TEST_P(ServerTest, NothingIsAppliedTwice) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  std::vector<Output> ones;
  for (int i = 0; i < 9; ++i) ones.push_back(model.g.AddOp("Identity", {model.one}));
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  for (const char* method : {"RunPartition", "PushTensors", "RegisterPartition"}) {
    for (const Fault::Action action :
         {Fault::Action::kDuplicate, Fault::Action::kDropReply, Fault::Action::kClose}) {
      faults_.Clear();
      const int hits = faults_.num_hits();
      faults_.Add({.action = action, .method = method, .count = 1});
      // Another fetch is another plan, so that there is something to register.
      // The ps reads, too, so its part does not begin with the tensor.
      const auto ran = session->Run({}, {ones[hits], model.read}, {model.add});
      ASSERT_TRUE(ran.ok()) << method << ran.status();
      EXPECT_EQ(faults_.num_hits(), hits + 1) << method;
    }
  }
  faults_.Clear();
  EXPECT_THAT(Values((*session->Run({}, {model.read}))[0]), ElementsAre(1 + 9 * 2, 2 + 9 * 2));
}

TEST_P(ServerTest, AStepThatIsNeverAnsweredEndsAtItsDeadline) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  faults_.Add({.action = Fault::Action::kDropRequest, .method = "RunPartition"});
  const absl::Time start = absl::Now();
  const absl::Status status =
      session->Run({}, {model.doubled}, {}, {.timeout = absl::Milliseconds(300)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

// Its deadline is far away, and the worker says nothing: only giving the call up ends the step.
TEST_P(ServerTest, AStepThatIsCancelledEndsThoughItsWorkerIsSilent) {
  if (GetParam()) return;  // needs faults
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  faults_.Add({.action = Fault::Action::kDropRequest, .method = "RunPartition"});
  auto prepared = session->Prepare({}, {model.doubled});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const std::shared_ptr<Step> step = (*prepared)->Start({}, {.timeout = absl::Minutes(10)});
  absl::Notification done;
  step->OnDone([&](const auto&) { done.Notify(); });
  step->Cancel(absl::CancelledError("enough"));
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  if (done.HasBeenNotified()) {
    EXPECT_THAT(std::string(step->Await().status().message()), HasSubstr("enough"));
  }
}

TEST_P(ServerTest, AMissingPsIsNamedAtTheDeadline) {
  auto w0 = Start({"worker", 0});
  CounterModel model(*w0);
  const absl::Status status =
      w0->CreateSession(model.g.graph(), {.operation_timeout = absl::Milliseconds(300)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0 at 127.0.0.1:"));
}

}  // namespace
}  // namespace weir
