// Clusters of servers in one process: over the in-process transport (with faults) and over gRPC.
#include "distributed/server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/replica_device_setter.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "kernels/variable.h"
#include "ops/control_flow.h"
#include "session/monitored/exit_code.h"
#include "session/partial_run.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Constant(GraphBuilder& g, Tensor value) {
  const DType dtype = value.dtype();
  return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
}

// A variable on the first ps, the ops to set it, to add to it and to read it, and y = 2 v on the worker.
struct CounterModel {
  explicit CounterModel(Server& server) : g(server.runtime().ops()) {
    {
      auto ps = g.DeviceScope("/job:ps/task:0");
      handle = g.AddOp("VarHandleOp", {},
                       {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"shared_name", "v"}});
      init = g.AddNode("AssignVariableOp", {handle, Constant(g, Tensor::Vector<float>({1, 2}))});
      read = g.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, "read");
    }
    {
      auto worker = g.DeviceScope(server.task().task().ToDevicePrefix());
      one = Constant(g, Tensor::Vector<float>({1, 1}));
      doubled = g.AddOp("AddV2", {read, read}, {}, "doubled");
      delta = g.AddOp("AddV2", {one, one}, {}, "delta");
    }
    auto ps = g.DeviceScope("/job:ps/task:0");
    add = g.AddNode("AssignAddVariableOp", {handle, delta});
  }
  GraphBuilder g;
  Output handle, read, one, doubled, delta;
  Node* init = nullptr;
  Node* add = nullptr;
};

class ServerTest : public ::testing::TestWithParam<bool> {
 protected:
  ServerTest() : faults_(MakeInprocTransport(MakeInprocNetwork())) {
    const std::vector<int> ports = FindFreePorts(4).value();
    for (int i = 0; i < 4; ++i) {
      const TaskName task = i == 0 ? TaskName{"ps", 0} : TaskName{"worker", i - 1};
      EXPECT_TRUE(cluster_.AddTask(task, absl::StrCat("127.0.0.1:", ports[i])).ok());
    }
  }

  std::unique_ptr<Server> Start(const TaskName& task) {
    ServerOptions options;
    options.lease = lease_;
    options.num_threads = 1;
    if (!GetParam()) options.transport = &faults_;
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(TaskConfig::Create(cluster_, task).value(), options);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  absl::Duration lease_ = absl::Seconds(20);
  ClusterSpec cluster_;
  FaultTransport faults_;
};

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

std::vector<float> Values(const Tensor& tensor) {
  return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
}

TEST_P(ServerTest, VariablesOnThePsAreSharedByWorkers) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  CounterModel model0(*w0), model1(*w1);
  ASSERT_TRUE(model0.g.ok()) << model0.g.status();
  auto session0 = w0->CreateSession(model0.g.graph()).value(),
       session1 = w1->CreateSession(model1.g.graph()).value();
  ASSERT_TRUE(session0->Run({}, {}, {model0.init}).ok());
  for (int i = 0; i < 10; ++i) {
    auto& session = i % 2 == 0 ? session0 : session1;
    auto& model = i % 2 == 0 ? model0 : model1;
    const auto ran = session->Run({}, {}, {model.add});
    ASSERT_TRUE(ran.ok()) << ran.status();
  }
  EXPECT_THAT(Values((*session1->Run({}, {model1.read}))[0]), ElementsAre(21, 22));
  const auto doubled = session0->Run({}, {model0.doubled, model0.read});
  ASSERT_TRUE(doubled.ok()) << doubled.status();
  EXPECT_THAT(Values((*doubled)[0]), ElementsAre(42, 44));
}

TEST_P(ServerTest, ARandomNodeOfAnotherTaskGoesOnInEveryStepOfItsSession) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops());
  auto device = g.DeviceScope("/job:ps/task:0");
  const Output shape =
      g.AddOp("Const", {}, {{"value", Tensor::Vector<int32_t>({2})}, {"dtype", DType::kInt32}});
  const AttrMap attrs = {{"dtype", DType::kFloat32}, {"seed", int64_t{7}}, {"seed2", int64_t{11}}};
  const Output r = g.AddOp("RandomUniform", {shape}, attrs),
               same_seeds = g.AddOp("RandomUniform", {shape}, attrs);
  const Output other = g.AddOp("Neg", {r});
  std::vector<float> begin;
  for (int i = 0; i < 2; ++i) {
    auto session = w0->CreateSession(g.graph()).value();
    const auto values = [&](const std::vector<TensorRef>& fetches) {
      auto out = session->Run({}, fetches);
      EXPECT_TRUE(out.ok()) << out.status();
      return Values((*out)[0]);
    };
    const std::vector<float> first = values({r}), second = values({r, other});
    EXPECT_EQ(first, values({same_seeds}));
    EXPECT_EQ(second, values({same_seeds}));
    if (i == 0) begin = first;
    EXPECT_EQ(first, begin) << "another session begins anew";
  }
}

TEST_P(ServerTest, FeedsAndLargeTensorsCross) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops());
  Output x, y, z;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}}, "x");
    y = g.AddOp("AddV2", {x, x});
  }
  {
    auto device = g.DeviceScope("/job:worker/task:0");
    z = g.AddOp("AddV2", {y, y});
  }
  auto session = w0->CreateSession(g.graph()).value();
  for (const int64_t size : {int64_t{1}, int64_t{3'000'000}}) {
    Tensor input(DType::kFloat32, {size});
    for (int64_t i = 0; i < size; ++i) input.flat<float>()[i] = static_cast<float>(i % 1000);
    const auto result = session->Run({{x, input}}, {z, y});
    ASSERT_TRUE(result.ok()) << result.status();
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ((*result)[0].flat<float>()[i], 4 * input.flat<float>()[i]) << i;
      ASSERT_EQ((*result)[1].flat<float>()[i], 2 * input.flat<float>()[i]) << i;
    }
  }
}

// The ps runs what the worker decides: the branch that is not taken is dead there too, and a loop may be a
// task's own.
TEST_P(ServerTest, PartialRunsReachOtherTasks) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops());
  const AttrMap attrs = {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}};
  const auto there = [&g](const char* op, std::initializer_list<InputArg> inputs) {
    auto device = g.DeviceScope("/job:ps/task:0");
    return g.AddOp(op, inputs);
  };
  const Output a = g.AddOp("Placeholder", {}, attrs, "a"), b = g.AddOp("Placeholder", {}, attrs, "b");
  const Output doubled = there("AddV2", {a, a}), here = g.AddOp("Neg", {doubled}),
               both = there("Mul", {here, b});
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  for (int i = 1; i <= 3; ++i) {
    auto run = session->StartPartialRun({a, b}, {doubled, here, both}).value();
    const auto first = run->Run({{a, Tensor::Scalar<float>(i)}}, {doubled});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ((*first)[0].scalar<float>(), 2 * i);
    EXPECT_EQ(run->Run({}, {both}).status().code(), absl::StatusCode::kInvalidArgument);
    const auto second = run->Run({{b, Tensor::Scalar(3.0f)}}, {both, here});
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*second)[0].scalar<float>(), -6 * i);
    EXPECT_EQ((*second)[1].scalar<float>(), -2 * i);
  }
  // An error of the other task reaches the run, and one that is dropped leaves nothing there.
  auto run = session->StartPartialRun({a, b}, {both}).value();
  ASSERT_TRUE(run->Run({{a, Tensor::Scalar(1.0f)}}, {}).ok());
  run = nullptr;
  run = session->StartPartialRun({a, b}, {both}).value();
  ps->Shutdown(absl::OkStatus());
  const absl::Status lost = run->step().Await().status();
  EXPECT_FALSE(lost.ok());
  EXPECT_EQ(run->Run({{a, Tensor::Scalar(1.0f)}}, {}).status(), lost);
}

// A session whose own part of the graph is in another process.
TEST_P(ServerTest, APartialRunNeedsAWorkerOfThisProcess) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(w0->runtime().ops());
  const Output a = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}, "a");
  const Output b = g.AddOp("Neg", {a});
  const SessionTarget target = w0->target();
  auto session = Session::Create(g.graph(), target.workers, *target.kernels,
                                 {.default_task = DeviceName::Parse("/job:ps/replica:0/task:0").value()})
                     .value();
  ASSERT_TRUE(session->Run({{a, Tensor::Scalar(1.0f)}}, {b}).ok());
  const absl::Status status = session->StartPartialRun({a}, {b}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/replica:0/task:0 is not in this process"));
}

TEST_P(ServerTest, ConditionsReachOtherTasks) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  GraphBuilder& g = model.g;
  auto worker = g.DeviceScope("/job:worker/task:0");
  const Output take =
      g.AddOp("Placeholder", {}, {{"dtype", DType::kBool}, {"shape", PartialShape::OfRank(0)}});
  const Output scale = Constant(g, Tensor::Scalar(10.0f)), limit = Constant(g, Tensor::Scalar(100.0f));
  const Output updated = Cond(
      g, take,
      [&] {
        Node* add = g.AddNode("AssignAddVariableOp", {model.handle, g.AddOp("Mul", {model.one, scale})});
        auto after = g.ControlScope({add});
        return std::vector{g.AddOp("Mul", {scale, scale})};
      },
      [&] { return std::vector{g.AddOp("Neg", {scale})}; })[0];
  Output grown;
  {
    auto on_ps = g.DeviceScope("/job:ps/task:0");
    grown = While(
        g, {scale},
        [&](const auto& v) {
          return g.AddOp("Less", {v[0], limit});
        },
        [&](const auto& v) {
          return std::vector{g.AddOp("AddV2", {v[0], v[0]})};
        })[0];
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  const auto run = [&](bool choice) {
    const auto result = session->Run({{take, Tensor::Scalar(choice)}}, {updated});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0].scalar<float>() : 0;
  };
  EXPECT_EQ(run(false), -10);
  EXPECT_THAT(Values((*session->Run({}, {model.read}))[0]), ElementsAre(1, 2));
  EXPECT_EQ(run(true), 100);
  EXPECT_THAT(Values((*session->Run({}, {model.read}))[0]), ElementsAre(11, 12));
  const auto looped = session->Run({}, {grown});
  ASSERT_TRUE(looped.ok()) << looped.status();
  EXPECT_EQ((*looped)[0].scalar<float>(), 160);
}

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

TEST_P(ServerTest, HostilePiecesAreRefused) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec;
  spec.plan = 5;
  spec.num_edges = 2;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  std::unique_ptr<Transport> grpc = GetParam() ? MakeGrpcTransport({}).value() : nullptr;
  Transport& transport = GetParam() ? *grpc : faults_;
  auto channel = transport.Connect({"ps", 0}, cluster_.address({"ps", 0}).value()).value();
  const auto push = [&](const TensorPiece& piece, std::vector<size_t> sizes, Incarnation addressee = 0) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, addressee}.EncodeTo(&writer);
    EncodePiece(piece, &writer);
    Frame frame;
    frame.header = writer.Take();
    for (const size_t size : sizes) frame.payloads.push_back(Payload::OfString(std::string(size, 'x')));
    absl::Notification done;
    absl::Status status;
    channel->Call("/weir.Worker/PushPiece", frame, {}, [&](absl::StatusOr<Frame> reply) {
      Incarnation replier = 0;
      const std::string header = reply.ok() ? reply->header : "";
      WireReader reader(header);
      status = reply.ok() ? DecodeReplyStatus(&reader, &replier) : reply.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  };
  const int64_t before = HostAllocator().num_bytes_in_use();
  constexpr int64_t kPieceBytes = 1 << 20;
  TensorPiece good;
  good.transfer = 1;
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
          [](TensorPiece* piece) { piece->edge = 2, piece->transfer = 2; }, {kPieceBytes});
  refused(absl::StatusCode::kAborted, "plan 6 is not registered",
          [](TensorPiece* piece) { piece->plan = 6, piece->transfer = 3; }, {kPieceBytes});
  refused(absl::StatusCode::kResourceExhausted, "are above the limit of",
          [](TensorPiece* piece) { piece->type.shape = Shape{int64_t{1} << 50}, piece->transfer = 4; },
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
  good.transfer = 5;
  EXPECT_TRUE(push(good, {kPieceBytes}).ok());
  EXPECT_GE(HostAllocator().num_bytes_in_use(), before + (4 << 20));
  remote->DeregisterPartition(5);
  for (int i = 0; i < 1000 && HostAllocator().num_bytes_in_use() > before; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(HostAllocator().num_bytes_in_use(), before);
}

TEST_P(ServerTest, ErrorsNameNodeAndTask) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  const absl::Status uninitialized = session->Run({}, {model.doubled}).status();
  EXPECT_FALSE(uninitialized.ok());
  EXPECT_THAT(std::string(uninitialized.message()), HasSubstr("/job:ps/replica:0/task:0"));
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  EXPECT_TRUE(session->Run({}, {model.doubled}).ok());  // the failed step left nothing behind
}

TEST_P(ServerTest, PartitionsAreDroppedWithTheSession) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  {
    auto session = w0->CreateSession(model.g.graph()).value();
    ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
    ASSERT_TRUE(session->Run({}, {model.doubled}).ok());
  }
  EXPECT_TRUE(w0->CreateSession(model.g.graph()).value()->Run({}, {model.doubled}).ok());
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
  session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  const auto result = session->Run({}, {model.doubled});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Values((*result)[0]), ElementsAre(2, 4));
}

TEST_P(ServerTest, ALostPeerEndsTheStepThatWaitsForIt) {
  lease_ = absl::Seconds(1);
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  if (GetParam()) return;  // a peer that is silent but connected needs faults
  faults_.Add({.action = Fault::Action::kDropRequest, .job = "ps"});
  const absl::Time start = absl::Now();
  const absl::Status status = session->Run({}, {model.doubled}, {}, {.timeout = absl::Seconds(60)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0 was lost: no sign of life for 1s"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

// A disk that hangs: opening a pipe waits until somebody writes to it.
struct HangingFile {
  explicit HangingFile(std::string name) : path(::testing::TempDir() + std::move(name)) {
    unlink(path.c_str());
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
  }
  ~HangingFile() { unlink(path.c_str()); }
  void LetGo() { close(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)); }

  const std::string path;
};

TEST_P(ServerTest, StepsThatComputeForLongDoNotSilenceTheTask) {
  lease_ = absl::Milliseconds(1500);
  constexpr int kNumSteps = 40;  // more than a server has threads
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0}), w1 = Start({"worker", 1});
  HangingFile file(absl::StrCat("/hanging_", GetParam(), ".index"));
  GraphBuilder g(w0->runtime().ops());
  Output value;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output prefix = Constant(g, Tensor::Scalar(file.path.substr(0, file.path.rfind('.'))));
    value = g.AddOp("RestoreV2",
                    {prefix, Constant(g, Tensor::Vector<std::string>({"v"})),
                     Constant(g, Tensor::Vector<std::string>({""}))},
                    {{"dtypes", std::vector<DType>{DType::kFloat32}}});
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  std::atomic<int> num_over{0};
  std::vector<std::thread> steps;
  for (int i = 0; i < kNumSteps; ++i) {
    steps.emplace_back([&] {
      const absl::Status status = session->Run({}, {value}, {}, {.timeout = absl::Seconds(60)}).status();
      EXPECT_FALSE(IsRecoverable(status)) << status;  // the file was empty; nobody was lost
      ++num_over;
    });
  }
  absl::SleepFor(3 * lease_);
  EXPECT_EQ(num_over, 0);
  EXPECT_EQ(w0->membership().state({"ps", 0}), Membership::State::kAlive);
  EXPECT_EQ(ps->membership().state({"worker", 0}), Membership::State::kAlive);
  EXPECT_TRUE(w1->CreateSession(g.graph(), {.operation_timeout = absl::Seconds(10)}).ok());
  while (num_over < kNumSteps) {
    file.LetGo();
    absl::SleepFor(absl::Milliseconds(2));
  }
  for (std::thread& step : steps) step.join();
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
      const auto ran = session->Run({}, {ones[hits]}, {model.add});
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
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
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
  if (done.HasBeenNotified()) EXPECT_THAT(std::string(step->Await().status().message()), HasSubstr("enough"));
}

// An update in place needs the variable's buffer for itself.
TEST_P(ServerTest, AnAnswerThatIsKeptDoesNotHoldTheVariable) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  const auto variable =
      ps->runtime().devices()[0]->resources().LookupOrCreate<Variable>("", "v", [] { return nullptr; });
  ASSERT_TRUE(variable.ok()) << variable.status();
  const auto buffer = [&]() -> const void* {
    absl::MutexLock lock(&(*variable)->mutex);
    return (*variable)->tensor.data();
  };
  bool is_in_place = false;
  // The answer may still be on its way out when it has come in.
  for (int i = 0; i < 50 && !is_in_place; ++i) {
    ASSERT_TRUE(session->Run({}, {model.read}).ok());
    const void* const before = buffer();
    ASSERT_TRUE(session->Run({}, {}, {model.add}).ok());
    is_in_place = buffer() == before;
  }
  EXPECT_TRUE(is_in_place);
}

TEST_P(ServerTest, AMissingPsIsNamedAtTheDeadline) {
  auto w0 = Start({"worker", 0});
  CounterModel model(*w0);
  const absl::Status status =
      w0->CreateSession(model.g.graph(), {.operation_timeout = absl::Milliseconds(300)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ps:0 at 127.0.0.1:"));
}

TEST_P(ServerTest, ManySessionsAtOnce) {
  auto ps = Start({"ps", 0});
  std::vector<std::unique_ptr<Server>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(Start({"worker", i}));
  CounterModel first(*workers[0]);
  ASSERT_TRUE(workers[0]->CreateSession(first.g.graph()).value()->Run({}, {}, {first.init}).ok());
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&worker] {
      CounterModel model(*worker);
      auto session = worker->CreateSession(model.g.graph()).value();
      for (int i = 0; i < 50; ++i) {
        const auto ran = session->Run({}, {}, {model.add});
        ASSERT_TRUE(ran.ok()) << ran.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto session = workers[0]->CreateSession(first.g.graph()).value();
  EXPECT_THAT(Values((*session->Run({}, {first.read}))[0]), ElementsAre(301, 302));
}

TEST_P(ServerTest, ASessionMayOutliveTheShutdown) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  CounterModel model(*w0);
  auto session = w0->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  w0->Shutdown();
  w0->Shutdown();
  EXPECT_TRUE(absl::IsCancelled(session->Run({}, {model.doubled}).status()));
  session.reset();
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
  for (const char* method :
       {"ListDevices", "RegisterPartition", "RunPartition", "CancelStep", "DeregisterPartition",
        "ResetContainers", "PushTensors", "PushPiece", "Heartbeat", "NoSuchMethod"}) {
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
  channel->Call("/tensorflow.MasterService/CreateSession", {}, {}, [&](absl::StatusOr<Frame> reply) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnimplemented) << reply.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(session->Run({}, {}, {model.init, model.add}).ok());
}

TEST_P(ServerTest, AStepWithTheWrongNumberOfArgumentsIsRefused) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec;
  spec.plan = 5;
  spec.num_args = spec.num_results = 1;
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

// A repeated message must not look like a second tensor for its edge, while the step waits for another one.
TEST_P(ServerTest, ARepeatedPushIsDeliveredOnce) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  const DeviceName device = DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value();
  auto graph = std::make_unique<Graph>(w0->runtime().ops());
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
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());

  std::unique_ptr<Transport> grpc = GetParam() ? MakeGrpcTransport({}).value() : nullptr;
  Transport& transport = GetParam() ? *grpc : faults_;
  auto channel = transport.Connect({"ps", 0}, cluster_.address({"ps", 0}).value()).value();
  const auto push = [&](uint64_t push_id, int edge, float value) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {push_id, 5, 1, {{edge, false, Tensor::Scalar(value)}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    absl::Notification done;
    absl::Status status;
    channel->Call(kPushTensorsMethod, frame, {}, [&](absl::StatusOr<Frame> reply) {
      Incarnation replier = 0;
      const std::string header = reply.ok() ? reply->header : "";
      WireReader reader(header);
      status = reply.ok() ? DecodeReplyStatus(&reader, &replier) : reply.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
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

TEST_P(ServerTest, AStepIsRunOnceHoweverLateItIsRepeated) {
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  Worker* remote = w0->target().workers[1];
  PartitionSpec spec;
  spec.plan = 5;
  ASSERT_TRUE(remote->RegisterPartition(std::move(spec), absl::Now() + absl::Seconds(20)).ok());
  const auto run = [&](int64_t step_id) {
    absl::Notification done;
    absl::Status status;
    RunPartitionCall call;
    call.plan = 5;
    call.step_id = step_id;
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
  EXPECT_TRUE(absl::IsAborted(run(3))) << run(3);
}

TEST(Server, AloneNeedsNoNetwork) {
  auto server = Server::Start(TaskConfig(), {.num_fake_gpus = 1, .num_threads = 1}).value();
  EXPECT_EQ(server->address(), "local");
  EXPECT_EQ(server->target().workers.size(), 1u);
  GraphBuilder g(server->runtime().ops());
  const Output x = Constant(g, Tensor::Scalar(2.0f)), y = g.AddOp("AddV2", {x, x});
  EXPECT_EQ((*server->CreateSession(g.graph()).value()->Run({}, {y}))[0].scalar<float>(), 4);
}

TEST(Server, PortInUseNamesTheTask) {
  const int port = FindFreePorts(1).value()[0];
  const TaskConfig task =
      TaskConfig::Create(ClusterSpec::FromFlag(absl::StrCat("worker|127.0.0.1:", port)).value(),
                         {"worker", 0})
          .value();
  auto first = Server::Start(task, {.num_threads = 1}).value();
  EXPECT_EQ(first->Describe(),
            absl::StrCat("serving /job:worker/replica:0/task:0 at grpc://127.0.0.1:", port));
  const absl::Status second = Server::Start(task, {.num_threads = 1}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("worker:0 cannot listen at 127.0.0.1:", port)));
}

}  // namespace
}  // namespace weir
