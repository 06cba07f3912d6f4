// Messages that a server gets twice, late, or from somebody who means harm.
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

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

namespace weir {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

// Plan 5 of the ps: result 0 is the sum of what comes for edges 0 and 1.
PartitionSpec SumOfTwoEdges(Server& server) {
  const DeviceName device = DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value();
  auto graph = std::make_unique<Graph>(server.runtime().ops());
  const auto add = [&](NodeSpec spec) {
    Node* node = graph->AddNode(std::move(spec)).value();
    graph->SetAssignedDevice(node, device);
    return node->output(0);
  };
  std::vector<Output> received;
  for (int64_t edge : {0, 1}) {
    received.push_back(add({.op = kRecvOp,
                            .name = absl::StrCat("recv_", edge),
                            .attrs = {{"tensor_type", DType::kFloat32},
                                      {"tensor_name", "x:0"},
                                      {"send_device", "/job:worker/replica:0/task:1/device:CPU:0"},
                                      {"send_device_incarnation", 0},
                                      {"recv_device", device.ToString()},
                                      {kEdgeAttr, edge}}}));
  }
  const Output sum = add({.op = "AddV2", .name = "sum", .inputs = {received[0], received[1]}});
  add({.op = kRetvalOp, .name = "result", .inputs = {sum}, .attrs = {{"index", 0}}});
  PartitionSpec spec;
  spec.plan = 5;
  spec.num_edges = 2;
  spec.num_results = 1;
  spec.graphs.push_back(std::move(graph));
  return spec;
}

TEST_P(ServerTest, HostilePiecesAreRefused) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  ASSERT_TRUE(remote->RegisterPartition(SumOfTwoEdges(*w0), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  const auto push = [&](const TensorPiece& piece, std::vector<size_t> sizes, Incarnation addressee = 0) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, addressee}.EncodeTo(&writer);
    EncodePiece(piece, &writer);
    Frame frame;
    frame.header = writer.Take();
    for (const size_t size : sizes) frame.payloads.push_back(Payload::OfString(std::string(size, 'x')));
    return AnswerOf(*channel, "/weir.Worker/PushPiece", std::move(frame));
  };
  const int64_t before = HostAllocator().num_bytes_in_use();
  constexpr int64_t kPieceBytes = 1 << 20;
  TensorPiece good;
  good.transfer.number = 1;
  good.plan = 5;
  good.step_id = 1;
  good.type = {DType::kFloat32, Shape{1 << 20}};
  good.piece_bytes = kPieceBytes;
  EXPECT_TRUE(push(good, {kPieceBytes}).ok());
  EXPECT_TRUE(push(good, {kPieceBytes}).ok());  // repeated
  const auto refused = [&](absl::StatusCode code, const char* text, auto change, std::vector<size_t> sizes) {
    TensorPiece piece = good;
    piece.index = 1;
    change(&piece);
    const absl::Status status = push(piece, std::move(sizes));
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto same = [](TensorPiece*) {};
  refused(invalid, "came with 1 bytes instead of 1048576", same, {1});
  refused(invalid, "came with 0 payloads", same, {});
  refused(invalid, "came with 2 payloads", same, {kPieceBytes, kPieceBytes});
  refused(invalid, "is outside a tensor", [](TensorPiece* piece) { piece->index = 4; }, {kPieceBytes});
  refused(invalid, "came in transfer 1 after", [](TensorPiece* piece) { piece->type.dtype = DType::kInt32; },
          {kPieceBytes});
  refused(invalid, "came in transfer 1 after", [](TensorPiece* piece) { piece->type.shape = Shape{1 << 21}; },
          {kPieceBytes});
  refused(invalid, "edge 2 of a plan with 2 edges",
          [](TensorPiece* piece) { piece->edge = 2, piece->transfer.number = 2; }, {kPieceBytes});
  refused(absl::StatusCode::kAborted, "plan 6 is not registered",
          [](TensorPiece* piece) { piece->plan = 6, piece->transfer.number = 3; }, {kPieceBytes});
  refused(absl::StatusCode::kResourceExhausted, "are above the limit of",
          [](TensorPiece* piece) { piece->type.shape = Shape{int64_t{1} << 50}, piece->transfer.number = 4; },
          {kPieceBytes});
  EXPECT_TRUE(absl::IsAborted(push(good, {kPieceBytes}, /*addressee=*/99)));  // meant for another life
  EXPECT_GE(HostAllocator().num_bytes_in_use(), before + (4 << 20));
  // The step is cancelled half way: its memory is free, and what comes later finds nothing.
  remote->CancelStep(5, 1, absl::CancelledError("enough"));
  for (int i = 0; i < 1000 && HostAllocator().num_bytes_in_use() > before; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(HostAllocator().num_bytes_in_use(), before);
  good.index = 2;
  EXPECT_TRUE(push(good, {kPieceBytes}).ok());
  // Dropped with its plan.
  good.step_id = 2;
  good.transfer.number = 5;
  EXPECT_TRUE(push(good, {kPieceBytes}).ok());
  EXPECT_GE(HostAllocator().num_bytes_in_use(), before + (4 << 20));
  remote->DeregisterPartition(5);
  for (int i = 0; i < 1000 && HostAllocator().num_bytes_in_use() > before; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(HostAllocator().num_bytes_in_use(), before);
}

// Every method with every truncation of a good request and with random bytes behind a good envelope: refused
// or harmless, and the server goes on.
TEST_P(ServerTest, HostileRequestsAreRefused) {
  if (GetParam()) return;  // the transport makes no difference
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  auto channel = faults_.Connect({"ps", 0}, cluster_.address({"ps", 0}).value()).value();
  std::mt19937 random(3);
  for (const char* method : {"ListDevices", "RegisterPartition", "RunPartition", "CancelStep", "FailStep",
                             "BeginRestore", "EndRestore", "DeregisterPartition", "ResetContainers",
                             "PushTensors", "PushPiece", "Heartbeat", "NoSuchMethod"}) {
    for (int i = 0; i < 300; ++i) {
      WireWriter writer;
      Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
      Frame frame;
      frame.header = writer.Take();
      // Cut short, or with random bytes behind the envelope.
      if (i % 3 == 0) {
        frame.header.resize(random() % frame.header.size());
      } else {
        for (size_t n = random() % 40; n > 0; --n) {
          frame.header.push_back(static_cast<char>(random() % 4 != 0 ? random() : 0));
        }
      }
      for (size_t n = random() % 3; n > 0; --n)
        frame.payloads.push_back(Payload::OfString(std::string(random() % 30, 'x')));
      absl::Notification done;
      channel->Call(absl::StrCat("/weir.Worker/", method), frame, {}, [&](absl::StatusOr<Frame> reply) {
        EXPECT_TRUE(reply.ok()) << reply.status();  // the status is inside
        done.Notify();
      });
      done.WaitForNotification();
    }
  }
  absl::Notification done;
  channel->Call("/tensorflow.WorkerService/GetStatus", {}, {}, [&](absl::StatusOr<Frame> reply) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnimplemented) << reply.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(session->Run({}, {}, {model.init, model.add}).ok());
}

int64_t PeakResidentBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// Each zero says that a tensor is not there.
TEST_P(ServerTest, AHeaderOfZerosIsCheap) {
  if (GetParam()) return;  // the transport makes no difference
  auto ps = Start({"ps", 0});
  auto channel = ConnectToPs();
  constexpr int64_t kZeros = 16 << 20;
  for (const char* method : {"/weir.Worker/PushTensors", "/weir.Worker/RunPartition"}) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    std::vector<Payload> payloads;
    if (absl::string_view(method) == kPushTensorsMethod) {
      ASSERT_TRUE(EncodePush({{1}, 5, 1, {}}, &writer, &payloads).ok());
    } else {
      ASSERT_TRUE(EncodeRunRequest({.plan = 5, .step_id = 1}, absl::Now(), {}, &writer, &payloads).ok());
    }
    Frame frame;
    frame.header = writer.Take();
    ASSERT_EQ(frame.header.back(), 0);  // so many tensors
    frame.header.pop_back();
    WireWriter count;
    count.Unsigned(kZeros / 2);
    frame.header += count.Take() + std::string(kZeros, 0);
    const int64_t before = PeakResidentBytes();
    const absl::Status status = AnswerOf(*channel, method, std::move(frame));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("a message with 0 payloads cannot have 8388608 tensors"));
    EXPECT_LT(PeakResidentBytes() - before, 100 << 20) << method;
  }
}

TEST_P(ServerTest, AStepWithTheWrongNumberOfArgumentsIsRefused) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec = SumOfTwoEdges(*w0);
  spec.num_args = 1;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  absl::Notification done;
  absl::Status status;
  RunPartitionCall call;
  call.plan = 5;
  call.step_id = 1;
  call.deadline = absl::Now() + absl::Seconds(20);
  remote->RunPartition(call, [&](absl::Status s) {
    status = s;
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("takes 1 arguments and gives 1 results, a step came with 0 and 0"));
}

// Whoever runs a part of a session knows its id. What the session keeps is its owner's all the same.
TEST_P(ServerTest, NobodyElseEndsASession) {
  if (GetParam()) return;  // the transport makes no difference
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  LocalWorker& own = dynamic_cast<LocalWorker&>(*ps->target().workers[0]);
  constexpr SessionId kSession = 77;
  const auto spec = [&](PlanId plan) {
    PartitionSpec spec = SumOfTwoEdges(*ps);
    spec.plan = plan;
    spec.session = kSession;
    return spec;
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  ASSERT_TRUE(own.RegisterPartition(spec(5), deadline).ok());
  ASSERT_TRUE(w0->target().workers[1]->RegisterPartition(spec(6), deadline).ok());
  const int num_owners = own.num_sessions();

  auto channel = ConnectToPs();
  const auto call = [&](const char* method, Incarnation sender, std::string body, Frame frame = {}) {
    WireWriter writer;
    Envelope{{"worker", 1}, sender, 0}.EncodeTo(&writer);
    frame.header = writer.Take() + body;
    return AnswerOf(*channel, method, std::move(frame));
  };
  WireWriter id, partition;
  id.Fixed64(kSession);
  const std::string ended = id.Take();
  EXPECT_TRUE(call(kEndSessionMethod, 7, ended).ok());
  EXPECT_EQ(own.num_sessions(), num_owners) << "ended by a task that has no part in it";
  Frame frame;
  ASSERT_TRUE(EncodePartition(spec(8), &partition, &frame.payloads).ok());
  ASSERT_TRUE(call(kRegisterPartitionMethod, 7, partition.Take(), std::move(frame)).ok());
  EXPECT_EQ(own.num_sessions(), num_owners + 1);
  EXPECT_TRUE(call(kHeartbeatMethod, 8, "").ok());  // a new life: the old one is lost
  EXPECT_EQ(own.num_sessions(), num_owners) << "ended with another task that had registered under its id";
  EXPECT_EQ(num_owners, 2);
}

TEST_P(ServerTest, AskedAgainWhileItCompilesAPlanIsRegisteredOnce) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  constexpr int kRepeats = 4;
  std::vector<std::thread> callers;
  for (int i = 0; i < kRepeats; ++i) {
    callers.emplace_back([&] {
      PartitionSpec spec;
      spec.plan = 5;
      // Large, so that the requests meet.
      auto graph = std::make_unique<Graph>(w0->runtime().ops());
      Output last;
      for (int n = 0; n < 3000; ++n) {
        std::vector<InputArg> inputs;
        if (n > 0) inputs = {last};
        NodeSpec node = {.op = n == 0 ? "Const" : "Neg", .name = absl::StrCat("n", n), .inputs = inputs};
        if (n == 0) node.attrs = {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}};
        Node* added = graph->AddNode(std::move(node)).value();
        graph->SetAssignedDevice(added, DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value());
        last = added->output(0);
      }
      spec.graphs.push_back(std::move(graph));
      const absl::Status status = remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20));
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Messages that worker:1 could send to the ps, one after the other.
class Client {
 public:
  explicit Client(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  absl::Status Register(PartitionSpec spec) {
    WireWriter body;
    std::vector<Payload> payloads;
    absl::Status status = EncodePartition(spec, &body, &payloads);
    return status.ok() ? Call(kRegisterPartitionMethod, body.Take(), std::move(payloads)) : status;
  }
  absl::Status Deregister(PlanId plan) {
    WireWriter body;
    body.Fixed64(plan);
    return Call(kDeregisterPartitionMethod, body.Take());
  }
  absl::Status Run(const RunPartitionCall& call) {
    WireWriter body;
    std::vector<Payload> payloads;
    absl::Status status = EncodeRunRequest(call, absl::Now(), {}, &body, &payloads);
    return status.ok() ? Call(kRunPartitionMethod, body.Take(), std::move(payloads)) : status;
  }

 private:
  absl::Status Call(absl::string_view method, std::string body, std::vector<Payload> payloads = {}) {
    WireWriter envelope;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&envelope);
    return AnswerOf(*channel_, method, {.header = envelope.Take() + body, .payloads = std::move(payloads)});
  }

  const std::unique_ptr<Channel> channel_;
};

// The end of a step belongs to the plan that it was a step of, not to a later one of the same id.
TEST_P(ServerTest, AStepThatOutlivesItsPlanIsNoneOfTheNextPlanOfThatId) {
  OpRegistry ops;
  ASSERT_TRUE(AddPassGate(ops, &options_).ok());
  auto ps = Start({"ps", 0});
  Client client(ConnectToPs());
  Gate gate;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  ASSERT_TRUE(client.Register(PlanWithGate(ops, gate)).ok());
  std::thread first([&] {
    const absl::Status status = client.Run({.plan = 5, .step_id = 1, .deadline = deadline});
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  gate.AwaitCaller();
  EXPECT_TRUE(client.Deregister(5).ok());
  // So many that the ps does not remember plan 5 any more.
  for (PlanId other = 1000; other < 1300; ++other) EXPECT_TRUE(client.Deregister(other).ok());
  EXPECT_TRUE(client.Register(PlanWithGate(ops, gate)).ok());
  gate.Open();
  first.join();
  EXPECT_TRUE(client.Run({.plan = 5, .step_id = 2, .over_below = 2, .deadline = deadline}).ok());
  EXPECT_TRUE(client.Run({.plan = 5, .step_id = 3, .over_below = 3, .deadline = deadline}).ok());
}

// A registration that comes a second time, late, finds that its plan is not wanted any more.
TEST_P(ServerTest, ADeregisteredPlanIsNotRegisteredByARepetition) {
  auto ps = Start({"ps", 0});
  Client client(ConnectToPs());
  ASSERT_TRUE(client.Register(SumOfTwoEdges(*ps)).ok());
  ASSERT_TRUE(client.Deregister(5).ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status again = client.Register(SumOfTwoEdges(*ps));
    EXPECT_TRUE(absl::IsAborted(again)) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("plan 5 was deregistered"));
  }
  EXPECT_EQ(ps->local_worker().num_plans(), 0);
}

// The first answer goes the way of the connection that broke: the second one must not hide it.
TEST_P(ServerTest, TheRepetitionOfAPushThatFailedFailsToo) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  ASSERT_TRUE(remote->RegisterPartition(SumOfTwoEdges(*w0), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  const auto push = [&](int64_t step_id) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {
        {static_cast<uint64_t>(step_id)}, 5, step_id, {{0, false, Tensor::Scalar(1.0f)}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    return AnswerOf(*channel, kPushTensorsMethod, std::move(frame));
  };
  absl::Status status;
  int64_t step = 0;
  while (status.ok() && step < 1000) status = push(++step);  // until too many steps have not started
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(push(step).code(), absl::StatusCode::kResourceExhausted) << push(step);
  EXPECT_TRUE(push(step - 1).ok()) << "one that was delivered";
}

// A repeated message must not look like a second tensor for its edge, while the step waits for another one.
TEST_P(ServerTest, ARepeatedPushIsDeliveredOnce) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  ASSERT_TRUE(remote->RegisterPartition(SumOfTwoEdges(*w0), absl::Now() + absl::Seconds(20)).ok());

  auto channel = ConnectToPs();
  const auto push = [&](uint64_t push_id, int edge, float value) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {{push_id}, 5, 1, {{edge, false, Tensor::Scalar(value)}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    return AnswerOf(*channel, kPushTensorsMethod, std::move(frame));
  };

  std::vector<Tensor> results(1);
  RunPartitionCall call;
  call.plan = 5;
  call.step_id = 1;
  call.deadline = absl::Now() + absl::Seconds(20);
  call.results = absl::MakeSpan(results);
  absl::Notification done;
  absl::Status status;
  ASSERT_TRUE(push(1, 0, 1).ok());
  remote->RunPartition(call, [&](absl::Status s) {
    status = s;
    done.Notify();
  });
  EXPECT_TRUE(push(1, 0, 1).ok()) << "the same message again: " << push(1, 0, 1);
  EXPECT_EQ(push(2, 0, 5).code(), absl::StatusCode::kInvalidArgument) << "another message for that edge";
  EXPECT_TRUE(push(3, 1, 10).ok());
  done.WaitForNotification();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(results[0].scalar<float>(), 11);
}

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A plan may say that it has a million edges; a message for a step that nobody starts costs what the task
// receives of them.
TEST_P(ServerTest, TinyPushesForStepsThatNeverStartAreBounded) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec = SumOfTwoEdges(*w0);
  spec.num_edges = 1 << 20;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  const auto push = [&](int64_t step_id) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {
        {static_cast<uint64_t>(step_id)}, 5, step_id, {{0, false, Tensor::Scalar(1.0f)}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    return AnswerOf(*channel, kPushTensorsMethod, std::move(frame));
  };
  ASSERT_TRUE(push(1).ok());
  const int64_t before = ResidentBytes();
  absl::Status status;
  int64_t num_steps = 1;
  while (status.ok() && num_steps < 1000) status = push(++num_steps);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(num_steps, 257);
  EXPECT_LT(ResidentBytes() - before, 20 << 20);
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  EXPECT_TRUE(session->Run({}, {}, {model.init}).ok());
}

TEST_P(ServerTest, LargePushesForStepsThatNeverStartAreBounded) {
  options_.peer_limits = "bytes=10000000";
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  ASSERT_TRUE(
      w0->target().workers[1]->RegisterPartition(SumOfTwoEdges(*w0), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  const Tensor large(DType::kFloat32, Shape({250'000}));
  absl::Status status;
  int64_t step_id = 0;
  while (status.ok() && step_id < 100) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {{static_cast<uint64_t>(++step_id)}, 5, step_id, {{0, false, large}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    status = AnswerOf(*channel, kPushTensorsMethod, std::move(frame));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--peer_limits=bytes=N"));
  EXPECT_EQ(step_id, 10);
}

// A byte stands for an empty string in a message, and 32 in memory.
TEST_P(ServerTest, StringsOfPushesCountAsWhatTheyTakeInMemory) {
  options_.peer_limits = "bytes=10000000";
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  ASSERT_TRUE(
      w0->target().workers[1]->RegisterPartition(SumOfTwoEdges(*w0), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  WireWriter writer;
  Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
  Frame frame;
  const PushRequest request = {{1}, 5, 1, {{0, false, Tensor(DType::kString, Shape({400'000}))}}};
  ASSERT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
  frame.header = writer.Take();
  EXPECT_LT(frame.num_wire_bytes(), 1'000'000u);
  const absl::Status status = AnswerOf(*channel, kPushTensorsMethod, std::move(frame));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--peer_limits=bytes=N"));
}

// What the ps has for worker 0 is bounded in each way, and what it has for another task is not touched.
TEST_P(ServerTest, APeerTakesNoMoreThanItsShare) {
  options_.peer_limits = "sessions=3,plans=8,edges=1000,steps=5,bytes=100000";
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  Worker* remote = w0->target().workers[1];
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto spec = [&](PlanId plan, SessionId session) {
    PartitionSpec spec = SumOfTwoEdges(*w0);
    spec.plan = plan;
    spec.session = session;
    return spec;
  };
  const auto refused = [](const absl::Status& status, absl::string_view limit) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), ContainsRegex("of worker:0: [0-9]+ more ")) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("--peer_limits=", limit, "=N")));
  };
  PartitionSpec many_edges = spec(4, 1);
  many_edges.num_edges = 1000;
  refused(remote->RegisterPartition(std::move(many_edges), deadline), "edges");
  for (SessionId id : {1, 2, 3}) ASSERT_TRUE(remote->RegisterPartition(spec(4 + id, id), deadline).ok());
  refused(remote->RegisterPartition(spec(8, 4), deadline), "sessions");
  for (PlanId id : {8, 9, 10, 11, 12}) ASSERT_TRUE(remote->RegisterPartition(spec(id, 1), deadline).ok());
  refused(remote->RegisterPartition(spec(13, 1), deadline), "plans");
  ASSERT_TRUE(remote->RegisterPartition(spec(12, 1), deadline).ok()) << "again";

  absl::Mutex mutex;
  std::vector<absl::Status> ended;
  std::vector<std::vector<Tensor>> results(8, std::vector<Tensor>(1));
  const auto run = [&](int64_t step_id) {
    RunPartitionCall call;
    call.plan = 5;
    call.step_id = step_id;
    call.deadline = deadline;
    call.results = absl::MakeSpan(results[step_id]);
    remote->RunPartition(call, [&](absl::Status status) {
      absl::MutexLock lock(&mutex);
      ended.push_back(status);
    });
  };
  const auto await = [&](size_t count) {
    absl::MutexLock lock(&mutex);
    const auto is_reached = [&] { return ended.size() >= count; };
    ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_reached), absl::Seconds(60)));
  };
  for (int64_t step = 1; step <= 6; ++step) run(step);  // they wait for tensors
  await(1);
  refused(ended[0], "steps");
  for (int64_t step = 1; step <= 6; ++step) remote->CancelStep(5, step, absl::CancelledError("enough"));
  await(6);

  // Others are served, and so is it, again.
  CounterModel model(*w1);
  auto session = w1->CreateSession(model.g.graph()).value();
  EXPECT_TRUE(session->Run({}, {}, {model.init}).ok());
  for (PlanId id = 5; id <= 12; ++id) remote->DeregisterPartition(id);
  for (SessionId id : {1, 2, 3}) remote->EndSession(id);
  absl::Status status;
  for (int i = 0; i < 500; ++i) {  // those notices are not waited for
    status = remote->RegisterPartition(spec(20, 9), deadline);
    if (status.ok()) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status;
  PartitionSpec large = spec(21, 9);
  NodeSpec constant = {.op = "Const",
                       .name = "large",
                       .attrs = {{"value", Tensor(DType::kFloat32, {50'000})}, {"dtype", DType::kFloat32}}};
  Node* node = large.graphs[0]->AddNode(std::move(constant)).value();
  large.graphs[0]->SetAssignedDevice(node,
                                     DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value());
  refused(remote->RegisterPartition(std::move(large), deadline), "bytes");
}

// A client that repeats a request for ever keeps no more than a few of them waiting.
TEST_P(ServerTest, RepetitionsThatWaitAreBounded) {
  auto ps = Start({"ps", 0}), w1 = Start({"worker", 1});
  auto channel = ConnectToPs();
  const auto frame_of = [&](std::string body, std::vector<Payload> payloads) {
    WireWriter writer;
    Envelope{{"worker", 0}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    frame.header = writer.Take() + body;
    frame.payloads = std::move(payloads);
    return frame;
  };
  WireWriter partition, run, cancel;
  std::vector<Payload> payloads, none;
  ASSERT_TRUE(EncodePartition(SumOfTwoEdges(*w1), &partition, &payloads).ok());
  ASSERT_TRUE(AnswerOf(*channel, kRegisterPartitionMethod, frame_of(partition.Take(), payloads)).ok());
  RunPartitionCall call;
  call.plan = 5;
  call.step_id = 1;
  std::vector<Tensor> results(1);
  call.results = absl::MakeSpan(results);
  ASSERT_TRUE(EncodeRunRequest(call, absl::Now(), {}, &run, &none).ok());
  const std::string body = run.Take();
  absl::Mutex mutex;
  int num_refused = 0, num_ended = 0;
  constexpr int kCalls = 200;
  for (int i = 0; i < kCalls; ++i) {
    channel->Call(kRunPartitionMethod, frame_of(body, {}), {}, [&](absl::StatusOr<Frame> reply) {
      Incarnation replier = 0;
      const std::string header = reply.ok() ? reply->header : "";
      WireReader reader(header);
      const absl::Status status = reply.ok() ? DecodeReplyStatus(&reader, &replier) : reply.status();
      absl::MutexLock lock(&mutex);
      ++num_ended;
      num_refused += absl::IsResourceExhausted(status);
    });
  }
  const auto await = [&](int* count, int least) {
    absl::MutexLock lock(&mutex);
    const auto is_reached = [&] { return *count >= least; };
    return mutex.AwaitWithTimeout(absl::Condition(&is_reached), absl::Seconds(60));
  };
  EXPECT_TRUE(await(&num_refused, kCalls - 64));
  EncodeCancel(5, 1, absl::CancelledError("enough"), &cancel);
  EXPECT_TRUE(AnswerOf(*channel, kCancelStepMethod, frame_of(cancel.Take(), {})).ok());
  EXPECT_TRUE(await(&num_ended, kCalls));
  EXPECT_EQ(num_refused, kCalls - 64);
}

TEST_P(ServerTest, AStepIsRunOnceHoweverLateItIsRepeated) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec;
  spec.plan = 5;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  const auto run = [&](int64_t step_id, int64_t over_below = 0) {
    absl::Notification done;
    absl::Status status;
    RunPartitionCall call;
    call.plan = 5;
    call.step_id = step_id;
    call.over_below = over_below;
    call.deadline = absl::Now() + absl::Seconds(20);
    remote->RunPartition(call, [&](absl::Status s) {
      status = s;
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  };
  for (int64_t step = 1; step <= 200; ++step) ASSERT_TRUE(run(step).ok());
  EXPECT_TRUE(run(199).ok());  // the kept answer
  EXPECT_TRUE(run(3).ok());
  EXPECT_TRUE(run(201, /*over_below=*/200).ok());
  EXPECT_TRUE(absl::IsAborted(run(199))) << run(199);
  EXPECT_TRUE(run(200).ok());
  EXPECT_TRUE(absl::IsAborted(run(3))) << run(3);
  // Of an owner that never says so, the answers of some steps are kept.
  for (int64_t step = 202; step <= 1400; ++step) ASSERT_TRUE(run(step).ok());
  EXPECT_TRUE(run(1300).ok());
  EXPECT_TRUE(absl::IsAborted(run(202))) << run(202);
}

// Tensors that come with the message that begins a step are those of who sends it, for edges that are
// received here.
TEST_P(ServerTest, TensorsThatComeWithAStepAreChecked) {
  auto ps = Start({"ps", 0}), w1 = Start({"worker", 1});
  auto channel = ConnectToPs();
  const auto frame_of = [](std::string body, std::vector<Payload> payloads) {
    WireWriter writer;
    Envelope{{"worker", 0}, 7, 0}.EncodeTo(&writer);
    return Frame{writer.Take() + body, std::move(payloads)};
  };
  WireWriter partition;
  std::vector<Payload> graphs;
  ASSERT_TRUE(EncodePartition(SumOfTwoEdges(*w1), &partition, &graphs).ok());
  ASSERT_TRUE(AnswerOf(*channel, kRegisterPartitionMethod, frame_of(partition.Take(), graphs)).ok());
  int64_t step_id = 0;
  const auto run = [&](int edge) {
    WireWriter writer;
    RunPartitionCall call;
    call.plan = 5;
    call.step_id = ++step_id;
    std::vector<Tensor> results(1);
    call.results = absl::MakeSpan(results);
    std::vector<Payload> payloads;
    EXPECT_TRUE(
        EncodeRunRequest(call, absl::Now(), {{edge, false, Tensor::Scalar(1.0f)}}, &writer, &payloads).ok());
    return AnswerOf(*channel, kRunPartitionMethod, frame_of(writer.Take(), std::move(payloads)));
  };
  const absl::Status of_another = run(0);
  EXPECT_EQ(of_another.code(), absl::StatusCode::kPermissionDenied) << of_another;
  EXPECT_THAT(std::string(of_another.message()), HasSubstr("task:1"));
  const absl::Status of_none = run(7);
  EXPECT_TRUE(absl::IsInvalidArgument(of_none)) << of_none;
  EXPECT_EQ(ps->local_worker().num_early_bytes(), 0);
}

TEST_P(ServerTest, APlanIsItsOwnersOnly) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec;
  spec.plan = 5;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  auto channel = ConnectToPs();
  const auto say = [&](const char* method, std::string body) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    frame.header = writer.Take() + body;
    const absl::Status answer = AnswerOf(*channel, method, std::move(frame));
    EXPECT_EQ(answer.code(), absl::StatusCode::kPermissionDenied) << answer;
    EXPECT_THAT(std::string(answer.message()), HasSubstr("is of worker:0, not of worker:1"));
  };
  WireWriter cancel, deregister, run;
  EncodeCancel(5, 1, absl::CancelledError("mine"), &cancel);
  say(kCancelStepMethod, cancel.Take());
  deregister.Fixed64(5);
  say(kDeregisterPartitionMethod, deregister.Take());
  RunPartitionCall call;
  call.plan = 5;
  std::vector<Payload> payloads;
  ASSERT_TRUE(EncodeRunRequest(call, absl::Now(), {}, &run, &payloads).ok());
  say(kRunPartitionMethod, run.Take());
  EXPECT_EQ(ps->local_worker().num_plans(), 1);
}

}  // namespace
}  // namespace weir
