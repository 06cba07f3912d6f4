// What one task of a job could do to the others with messages of its own, in its own name.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/test_answer.h"
#include "distributed/test_gate.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "graph/runtime_ops.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

constexpr char kPsDevice[] = "/job:ps/replica:0/task:0/device:CPU:0";

// A task that holds a life which the authority has granted long ago.
class Attacker {
 public:
  Attacker(std::unique_ptr<Channel> channel, TaskName task) : channel_(std::move(channel)), task_(task) {}

  // Waits for the answer: the status that is in it, or why there is none.
  absl::Status Call(absl::string_view method, std::string body, std::vector<Payload> payloads = {}) {
    WireWriter envelope;
    Envelope{task_, 7}.EncodeTo(&envelope);
    return CallAs(method, {.header = envelope.Take() + body, .payloads = std::move(payloads)});
  }
  absl::Status CallAs(absl::string_view method, Frame request) {
    return AnswerOf(*channel_, method, std::move(request));
  }
  absl::Status Register(const PartitionSpec& spec) {
    WireWriter body;
    std::vector<Payload> payloads;
    absl::Status status = EncodePartition(spec, &body, &payloads);
    return status.ok() ? Call(kRegisterPartitionMethod, body.Take(), std::move(payloads)) : status;
  }
  absl::Status Push(uint64_t push_id, int edge) {
    WireWriter body;
    std::vector<Payload> payloads;
    const PushRequest request = {{push_id}, 5, 1, {{edge, false, Tensor::Scalar(1.0f)}}};
    absl::Status status = EncodePush(request, &body, &payloads);
    return status.ok() ? Call(kPushTensorsMethod, body.Take(), std::move(payloads)) : status;
  }
  absl::Status PushPiece(int edge, int64_t step_id = 1) {
    WireWriter body;
    EncodePiece({.transfer = {static_cast<uint64_t>(step_id)},
                 .plan = 5,
                 .step_id = step_id,
                 .edge = edge,
                 .type = {DType::kFloat32, Shape({1 << 20})},
                 .piece_bytes = 1 << 20,
                 .index = 0},
                &body);
    return Call(kPushPieceMethod, body.Take(), {Payload::OfString(std::string(1 << 20, 'x'))});
  }

 private:
  const std::unique_ptr<Channel> channel_;
  const TaskName task_;
};

// Plan 5 of the ps: result 0 is what worker 1 sends for edge 0.
PartitionSpec ReceivingPlan(const OpRegistry& ops, bool has_edge = true) {
  const DeviceName device = DeviceName::Parse(kPsDevice).value();
  PartitionSpec spec;
  spec.plan = 5;
  spec.num_edges = 1;
  spec.num_results = 1;
  auto graph = std::make_unique<Graph>(ops);
  AttrMap attrs = {{"tensor_type", DType::kFloat32},
                   {"tensor_name", "x:0"},
                   {"send_device", "/job:worker/replica:0/task:1/device:CPU:0"},
                   {"send_device_incarnation", 0},
                   {"recv_device", device.ToString()}};
  if (has_edge) attrs[kEdgeAttr] = 0;
  Node* received = graph->AddNode({.op = kRecvOp, .name = "recv", .attrs = attrs}).value();
  graph->SetAssignedDevice(received, device);
  graph->SetAssignedDevice(
      graph
          ->AddNode(
              {.op = kRetvalOp, .name = "result", .inputs = {received->output(0)}, .attrs = {{"index", 0}}})
          .value(),
      device);
  spec.graphs.push_back(std::move(graph));
  return spec;
}

TEST_P(ServerTest, APartThatDoesNotSayWhatItReceivesIsRefused) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  const absl::Status registered = w0->target().workers[1]->RegisterPartition(
      ReceivingPlan(ps->runtime().ops(), /*has_edge=*/false), absl::Now() + absl::Seconds(20));
  EXPECT_TRUE(absl::IsInvalidArgument(registered)) << registered;
}

// The names of certificates are those of senders: what a task says of others must not end them.
TEST_P(ServerTest, ATaskSaysOnlyOfItselfThatItIsDone) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  ASSERT_TRUE(
      remote->RegisterPartition(ReceivingPlan(ps->runtime().ops()), absl::Now() + absl::Seconds(20)).ok());
  const Incarnation own = w0->target().life();
  ASSERT_NE(own, 0u);
  Attacker attacker(ConnectToPs(), {"worker", 1});
  for (const Incarnation life : {own, own + 1, kLastLife, ~Incarnation{0}}) {
    WireWriter body;
    JoinCall call;
    call.done = {{{"worker", 0}, life}, {{"ps", 0}, life}};
    EncodeJoin(call, &body);
    EXPECT_TRUE(attacker.Call(kJoinMethod, body.Take()).ok());
  }
  WireWriter heartbeat;
  Envelope{{"worker", 0}, own}.EncodeTo(&heartbeat);
  const absl::Status heard = attacker.CallAs(kHeartbeatMethod, {.header = heartbeat.Take()});
  EXPECT_TRUE(heard.ok()) << heard << ": it is alive, in its life";
  EXPECT_EQ(ps->local_worker().num_plans(), 1) << "it still needs that";
}

// Each of them could be one that was replaced: the task's address is asked once for all, not by each of them.
TEST_P(ServerTest, WhoeverAsksToBeATaskMakesNoConnectionOfItsOwn) {
  constexpr uint64_t kProcesses = 8, kThere = 5;
  const auto ps = Start({"ps", 0});
  const std::string address = cluster_.address({"worker", 1}).value();
  const std::unique_ptr<Channel> channel = ConnectToPs();
  std::atomic<int> num_looks = 0;
  const auto listener = (GetParam() ? *grpc_ : faults_)
                            .Listen(address,
                                    [&num_looks](std::shared_ptr<IncomingCall> call) {
                                      ++num_looks;
                                      absl::SleepFor(absl::Seconds(1));
                                      WireWriter body;
                                      EncodeHeartbeatReply(kThere, &body);
                                      call->Reply(EncodeReply(0, absl::OkStatus(), body.Take()));
                                    })
                            .value();
  std::vector<absl::Status> answers(kProcesses);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kProcesses; ++i) {
    threads.emplace_back([&, i] {
      WireWriter request;
      Envelope{{"worker", 1}, 0}.EncodeTo(&request);
      EncodeJoin({.age = absl::Hours(1), .process = i + 1, .address = address}, &request);
      answers[i] = AnswerOf(*channel, kJoinMethod, {.header = request.Take()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(num_looks, 0);
  EXPECT_LT(num_looks, static_cast<int>(kProcesses));
  for (uint64_t i = 0; i < kProcesses; ++i) {
    EXPECT_EQ(answers[i].ok(), i + 1 == kThere) << answers[i];
    if (answers[i].ok()) continue;
    // On a busy machine the one that is there may seem to have been started a moment later.
    EXPECT_THAT(std::string(answers[i].message()),
                AnyOf(HasSubstr("another process is worker:1 at "),
                      HasSubstr("a later process has just asked to be worker:1")));
  }
}

// Not hostile, but as little to be understood.
TEST_P(ServerTest, ATaskOfAnotherVersionIsRefusedByName) {
  auto ps = Start({"ps", 0});
  Attacker other(ConnectToPs(), {"worker", 1});
  const auto join = [&other](const std::string& body) {
    WireWriter envelope;
    Envelope{{"worker", 1}, 0}.EncodeTo(&envelope);
    return other.CallAs(kJoinMethod, {.header = envelope.Take() + body});
  };
  const auto join_as = [&join](const SpokenVersion& spoken) {
    WireWriter body;
    EncodeJoin({.spoken = spoken}, &body);
    return join(body.Take());
  };
  const std::string own = absl::StrCat("ps:0 runs Weir ", WEIR_VERSION, " (protocol ", kWireProtocol, ")");
  const absl::Status later = join_as({kWireProtocol + 1, "9.8.7"});
  EXPECT_TRUE(absl::IsInvalidArgument(later)) << later;
  EXPECT_THAT(std::string(later.message()),
              AllOf(HasSubstr(absl::StrCat("worker:1 runs Weir 9.8.7 (protocol ", kWireProtocol + 1, ")")),
                    HasSubstr(own)));
  // Tasks of protocol 2 send more than their windows: each such push would look like a broken connection.
  const absl::Status without_windows = join_as({2, "0.0.8"});
  EXPECT_TRUE(absl::IsInvalidArgument(without_windows)) << without_windows;
  EXPECT_THAT(std::string(without_windows.message()),
              AllOf(HasSubstr("worker:1 runs Weir 0.0.8 (protocol 2)"), HasSubstr(own)));
  // What requests were like before they said their version.
  WireWriter body;
  for (int i = 0; i < 8; ++i) body.Fixed64(0);
  const absl::Status earlier = join(body.Take());
  EXPECT_TRUE(absl::IsInvalidArgument(earlier)) << earlier;
  EXPECT_THAT(
      std::string(earlier.message()),
      AllOf(HasSubstr("worker:1 runs a version of Weir that does not say which it is"), HasSubstr(own)));
  EXPECT_EQ(ps->membership().incarnation_of({"worker", 1}), 0u);
  // The same protocol: it is let in, and both are named, once.
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(join_as({kWireProtocol, "0.0.9"}).ok());
  EXPECT_TRUE(join_as({kWireProtocol, "0.0.9"}).ok());
  const std::string printed = ::testing::internal::GetCapturedStderr();
  const std::string line =
      absl::StrCat("ps:0: worker:1 runs Weir 0.0.9, and ps:0 runs Weir ", WEIR_VERSION, ": they understand");
  EXPECT_THAT(printed, HasSubstr(line));
  EXPECT_EQ(printed.find(line), printed.rfind(line));
}

// What a session in the ps's own process has registered is of nobody else.
TEST_P(ServerTest, NoOtherTaskEndsWhatTheTasksOwnSessionsRun) {
  auto ps = Start({"ps", 0});
  Worker& own = *ps->target().workers[0];
  ASSERT_NE(own.owners(), nullptr) << "it is another task's";
  PartitionSpec spec;
  spec.plan = 5;
  auto graph = std::make_unique<Graph>(ps->runtime().ops());
  Node* node = graph
                   ->AddNode({.op = "Const",
                              .name = "c",
                              .attrs = {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}}})
                   .value();
  graph->SetAssignedDevice(node, DeviceName::Parse(kPsDevice).value());
  spec.graphs.push_back(std::move(graph));
  ASSERT_TRUE(own.RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  Attacker attacker(ConnectToPs(), {"worker", 1});
  WireWriter cancel, deregister;
  EncodeCancel(5, 1, absl::CancelledError("enough"), &cancel);
  EXPECT_TRUE(attacker.Call(kCancelStepMethod, cancel.Take()).ok());
  absl::Notification done;
  absl::Status status;
  own.RunPartition({.plan = 5, .step_id = 1, .deadline = absl::Now() + absl::Seconds(20)},
                   [&](const absl::Status& run) {
                     status = run;
                     done.Notify();
                   });
  done.WaitForNotification();
  EXPECT_TRUE(status.ok()) << status;
  deregister.Fixed64(5);
  EXPECT_TRUE(attacker.Call(kDeregisterPartitionMethod, deregister.Take()).ok());
  EXPECT_EQ(ps->local_worker().num_plans(), 1);
}

TEST_P(ServerTest, ATaskSendsOnlyItsOwnTensors) {
  auto ps = Start({"ps", 0});
  Attacker owner(ConnectToPs(), {"worker", 1}), attacker(ConnectToPs(), {"worker", 2});
  ASSERT_TRUE(owner.Register(ReceivingPlan(ps->runtime().ops())).ok());
  for (const absl::Status& refused : {attacker.Push(1, 0), attacker.PushPiece(0)}) {
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr("a tensor for edge 0 of plan 5 came from /job:worker/replica:0/task:2, but is 'x:0' "
                  "from /job:worker/replica:0/task:1/device:CPU:0"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(attacker.Push(2, 1))) << "no such edge";
  EXPECT_TRUE(owner.Push(1, 0).ok());
}

// Large tensors come in pieces, and the first one makes room for all.
TEST_P(ServerTest, TensorsInPiecesCountUntilTheirStepsAreOver) {
  options_.peer_limits = "bytes=10000000";
  auto ps = Start({"ps", 0});
  Attacker owner(ConnectToPs(), {"worker", 1});
  ASSERT_TRUE(owner.Register(ReceivingPlan(ps->runtime().ops())).ok());
  EXPECT_TRUE(owner.PushPiece(0, 1).ok());
  EXPECT_TRUE(owner.PushPiece(0, 2).ok());
  const absl::Status refused = owner.PushPiece(0, 3);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("a tensor for step 3 of worker:1"), HasSubstr("--peer_limits=bytes=N")));
  WireWriter cancel;
  EncodeCancel(5, 1, absl::CancelledError("enough"), &cancel);
  EXPECT_TRUE(owner.Call(kCancelStepMethod, cancel.Take()).ok());
  EXPECT_TRUE(owner.PushPiece(0, 4).ok()) << "the first step is over";
}

// It sends as much at once as it likes; others do not.
TEST_P(ServerTest, WhoDoesNotCareForItsWindowHarmsNobody) {
  constexpr int kCalls = 40, kValues = 1 << 20;
  const int num_busy = GrpcOptions().max_server_threads - 1;  // so many may compute
  options_.peer_limits = "inbound=8000000";
  OpRegistry ops;
  ASSERT_TRUE(AddPassGate(ops, &options_).ok());
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Attacker owner(ConnectToPs(), {"worker", 1});
  ASSERT_TRUE(owner.Register(ReceivingPlan(ops)).ok());
  Gate gate;
  PartitionSpec busy = PlanWithGate(ops, gate);
  busy.plan = 6;
  ASSERT_TRUE(owner.Register(busy).ok());
  const std::unique_ptr<Channel> channel = ConnectToPs();
  std::atomic<int> num_taken = 0, num_refused = 0, num_over = 0;
  const auto call = [&](absl::string_view method, std::string body, std::vector<Payload> payloads,
                        std::function<void(const absl::Status&)> done) {
    WireWriter envelope;
    Envelope{{"worker", 1}, 7}.EncodeTo(&envelope);
    channel->Call(method, {.header = envelope.Take() + body, .payloads = std::move(payloads)},
                  {.deadline = absl::Now() + absl::Seconds(120)},
                  [&num_over, done](const absl::StatusOr<Frame>& reply) {
                    done(reply.status());
                    ++num_over;
                  });
  };
  const auto await = [](const std::atomic<int>& number, int value) {
    const absl::Time end = absl::Now() + absl::Seconds(120);
    while (number < value && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
    return number == value;
  };
  int num_pushed = 0;
  const auto push_all = [&] {
    for (int i = 0; i < kCalls; ++i) {
      const int64_t number = ++num_pushed;
      WireWriter body;
      std::vector<Payload> payloads;
      const PushRequest request = {{static_cast<uint64_t>(number)},
                                   5,
                                   number,
                                   {{0, false, Tensor(DType::kFloat32, Shape({kValues}))}}};
      ASSERT_TRUE(EncodePush(request, &body, &payloads).ok());
      call(kPushTensorsMethod, body.Take(), std::move(payloads), [&](const absl::Status& status) {
        ++(status.ok() ? num_taken : num_refused);
        EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      });
    }
  };
  // While all threads that may compute do, nothing is delivered: what comes adds up.
  for (int64_t step = 1; step <= num_busy; ++step) {
    WireWriter body;
    std::vector<Payload> payloads;
    const RunPartitionCall run = {.plan = 6, .step_id = step, .deadline = absl::Now() + absl::Seconds(120)};
    ASSERT_TRUE(EncodeRunRequest(run, absl::Now(), {}, &body, &payloads).ok());
    call(kRunPartitionMethod, body.Take(), std::move(payloads),
         [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  }
  const bool all_compute = gate.AwaitCallers(num_busy, absl::Seconds(60));
  EXPECT_TRUE(all_compute);
  push_all();
  EXPECT_TRUE(await(num_refused, kCalls - 1)) << num_refused << ": one of them fills its window";
  EXPECT_EQ(num_taken, 0);
  gate.Open();
  EXPECT_TRUE(await(num_over, num_busy + kCalls));
  EXPECT_EQ(num_taken, 1);
  // While it goes on another one works.
  push_all();
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  EXPECT_TRUE(session->Run({}, {}, {model.init}).ok());
  EXPECT_TRUE(await(num_over, num_busy + 2 * kCalls));
  EXPECT_GT(num_taken, 1);
  // It has room again as soon as nothing is on its way.
  EXPECT_TRUE(owner.PushPiece(0, 1000).ok());
}

// One value stands for all elements of a constant.
TEST_P(ServerTest, ConstantsCountAsWhatTheyTake) {
  options_.peer_limits = "bytes=1000000";
  auto ps = Start({"ps", 0});
  Attacker attacker(ConnectToPs(), {"worker", 1});
  const auto plan = [&](PlanId id, int64_t num_elements, int num_constants) {
    PartitionSpec spec;
    spec.plan = id;
    auto graph = std::make_unique<Graph>(ps->runtime().ops());
    for (int i = 0; i < num_constants; ++i) {
      Tensor zeros = Tensor::Allocate(DType::kFloat32, Shape({num_elements}), HostAllocator()).value();
      std::fill(zeros.flat<float>().begin(), zeros.flat<float>().end(), 0.f);
      Node* node = graph
                       ->AddNode({.op = "Const",
                                  .name = absl::StrCat("c", i),
                                  .attrs = {{"value", std::move(zeros)}, {"dtype", DType::kFloat32}}})
                       .value();
      graph->SetAssignedDevice(node, DeviceName::Parse(kPsDevice).value());
    }
    spec.graphs.push_back(std::move(graph));
    return attacker.Register(spec);
  };
  EXPECT_TRUE(plan(1, 100'000, 2).ok());
  for (const absl::Status& refused : {plan(2, 100'000, 2), plan(3, 300'000, 1), plan(4, 1'000, 200)}) {
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("bytes of constants and arguments"));
  }
  EXPECT_EQ(ps->local_worker().num_plans(), 1);
  EXPECT_TRUE(plan(5, 10'000, 1).ok()) << "what was refused is not counted";
  WireWriter body;
  body.Fixed64(1);
  EXPECT_TRUE(attacker.Call(kDeregisterPartitionMethod, body.Take()).ok());
  EXPECT_TRUE(plan(6, 100'000, 2).ok());
}

// The certificate of a worker says nothing of ps 0.
class ProvenNamesTest : public testing::Test {
 protected:
  ProvenNamesTest() {
    EXPECT_TRUE(cluster_.AddTask({"ps", 0}, "127.0.0.1:4000").ok());
    EXPECT_TRUE(cluster_.AddTask({"worker", 0}, "127.0.0.1:4001").ok());
  }
  std::unique_ptr<Server> StartPs(const std::string& listen) {
    ServerOptions options;
    options.num_threads = 1;
    options.transport = &transport_;
    options.listen = listen;
    options.lease = absl::Milliseconds(200);
    options.security.tls_task_names = true;
    return Server::Start(TaskConfig::Create(cluster_, {"ps", 0}).value(), options).value();
  }
  static void AwaitSettled(Server& server) {
    while (!server.membership().ViewSince({}).is_settled) absl::SleepFor(absl::Milliseconds(10));
  }
  absl::Status Claim(const std::string& address, Incarnation authority) {
    JoinCall call;
    call.known_authority = authority;
    WireWriter body;
    EncodeJoin(call, &body);
    return Attacker(transport_.Connect({"ps", 0}, address).value(), {"worker", 0})
        .Call(kJoinMethod, body.Take());
  }

  ClusterSpec cluster_;
  FaultTransport transport_{MakeInprocTransport(MakeInprocNetwork())};
};

TEST_F(ProvenNamesTest, AWorkerEndsNoPsByWhatItSaysOfIt) {
  const auto ps = StartPs("127.0.0.1:4000");
  AwaitSettled(*ps);
  Membership& members = ps->membership();
  const Incarnation life = members.incarnation();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Claim("127.0.0.1:4000", life + 1).ok());
    EXPECT_TRUE(Claim("127.0.0.1:4000", life + (uint64_t{1} << 30)).ok());
  }
  absl::SleepFor(absl::Milliseconds(300));  // it has found itself by then
  EXPECT_TRUE(members.superseded().ok()) << members.superseded();
  EXPECT_EQ(members.incarnation(), life);
}

TEST_F(ProvenNamesTest, APsWhoseSuccessorAnswersAtItsAddressIsOver) {
  const auto zombie = StartPs("127.0.0.1:5000");
  AwaitSettled(*zombie);
  absl::SleepFor(absl::Milliseconds(10));  // lives of other processes are 4 ms apart
  const auto successor = StartPs("127.0.0.1:4000");
  ASSERT_GT(successor->membership().incarnation(), zombie->membership().incarnation());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (zombie->membership().superseded().ok() && absl::Now() < deadline) {
    Claim("127.0.0.1:5000", successor->membership().incarnation()).IgnoreError();
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(IsSuperseded(zombie->membership().superseded())) << zombie->membership().superseded();
  EXPECT_TRUE(successor->membership().superseded().ok());
}

// Lines that others can have written at will would fill a disk.
TEST(HostileReplicasTest, WhoCountsOtherRanksIsNotNamedEachTimeThatItAsks) {
  FaultTransport transport(MakeInprocTransport(MakeInprocNetwork()));
  ClusterSpec cluster;
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(cluster.AddTask({"worker", rank}, absl::StrCat("127.0.0.1:", 4000 + rank)).ok());
  }
  const auto server = Server::Start(TaskConfig::Create(cluster, {"worker", 0}).value(),
                                    {.num_threads = 1, .transport = &transport})
                          .value();
  Attacker attacker(transport.Connect({"worker", 0}, "127.0.0.1:4000").value(), {"worker", 1});
  testing::internal::CaptureStderr();
  for (uint64_t attempt = 0; attempt < 1000; ++attempt) {
    WireWriter body;
    body.Fixed64(attempt);
    body.Unsigned(5);
    EXPECT_TRUE(absl::IsInvalidArgument(attacker.Call("/weir.Collective/Form", body.Take())));
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("rank 1 (worker:1) counts 5 ranks, rank 0 (worker:0) counts 2"));
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 20);
}

}  // namespace
}  // namespace weir
