// Loops whose nodes are on several tasks, and what a peer may send into one.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/test_answer.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "graph/runtime_ops.h"
#include "ops/control_flow.h"
#include "session/received_edges.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Values = std::vector<Output>;

constexpr char kPs[] = "/job:ps/task:0";
constexpr char kWorker1[] = "/job:worker/task:1";

// A graph of worker 0: what has no other device runs there.
class LoopModel {
 public:
  explicit LoopModel(Server& server)
      : g(server.runtime().ops()), own_(g.DeviceScope("/job:worker/task:0/device:CPU:0")) {}

  template <typename Build>
  auto On(const std::string& device, Build build) {
    auto scope = g.DeviceScope(absl::StrCat(device, "/device:CPU:0"));
    return build();
  }
  Output Number(float value) { return Constant(g, Tensor::Scalar(value)); }
  Output Add(const Output& a, const Output& b) { return g.AddOp("AddV2", {a, b}); }
  Output Less(const Output& a, const Output& b) { return g.AddOp("Less", {a, b}); }
  // A loop with a counter up to `end`, its variable 0.
  Values CountTo(float end, Values initial, const LoopBody& body) {
    initial.insert(initial.begin(), Number(0));
    return While(
        g, initial, [&, end](const Values& v) { return Less(v[0], Number(end)); },
        [&](const Values& v) {
          Values next = body(v);
          next.insert(next.begin(), Add(v[0], Number(1)));
          return next;
        });
  }

  GraphBuilder g;

 private:
  decltype(g.DeviceScope("")) own_;
};

class LoopsOverTasksTest : public ServerTest {
 protected:
  void StartAll() {
    ps_ = Start({"ps", 0});
    w1_ = Start({"worker", 1});
    w2_ = Start({"worker", 2});
    w0_ = Start({"worker", 0});
  }
  std::unique_ptr<Session> MakeSession(LoopModel& model) {
    EXPECT_TRUE(model.g.ok()) << model.g.status();
    const SessionTarget target = w0_->target_on_all_tasks();
    return Session::Create(model.g.graph(), target.workers, w0_->runtime().kernels()).value();
  }
  // The one value of `fetch`; 1e9 where the step fails.
  float Run(LoopModel& model, const Output& fetch, const Feeds& feeds = {}) {
    if (!session_) session_ = MakeSession(model);
    auto result = session_->Run(feeds, {fetch}, {}, {.timeout = absl::Seconds(60)});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0].scalar<float>() : 1e9f;
  }

  std::unique_ptr<Server> ps_, w0_, w1_, w2_;
  std::unique_ptr<Session> session_;
};

INSTANTIATE_TEST_SUITE_P(All, LoopsOverTasksTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

TEST_P(LoopsOverTasksTest, ABodyOfThreeTasks) {
  StartAll();
  LoopModel m(*w0_);
  const Output y = m.CountTo(200, {m.Number(0)}, [&](const Values& v) {
    const Output a = m.On(kPs, [&] { return m.Add(v[1], v[0]); });
    const Output b = m.On(kWorker1, [&] { return m.Add(a, v[0]); });
    return Values{m.On(kPs, [&] { return m.Add(b, m.Number(1)); })};
  })[1];
  for (int step = 0; step < 3; ++step) EXPECT_EQ(Run(m, y), 199 * 200 + 200);
}

// Nothing comes back from the ps, and what it is sent must not pile up there.
TEST_P(LoopsOverTasksTest, AVariableOfThePsIsUpdatedInEveryIteration) {
  StartAll();
  LoopModel m(*w0_);
  Output handle, read;
  Node* init = nullptr;
  m.On(kPs, [&] {
    handle = m.g.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape::OfRank(0)}});
    init = m.g.AddNode("AssignVariableOp", {handle, m.Number(0)});
    return read = m.g.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  });
  Node* add = nullptr;
  const Output y = m.CountTo(2000, {}, [&](const Values& v) {
    add = m.g.AddNode("AssignAddVariableOp", {handle, m.Add(v[0], m.Number(1))});
    return Values{};
  })[0];
  session_ = MakeSession(m);
  ASSERT_TRUE(session_->Run({}, {}, {init}).ok());
  const auto ran = session_->Run({}, {y}, {add}, {.timeout = absl::Seconds(60)});
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ((*ran)[0].scalar<float>(), 2000);
  EXPECT_EQ(Run(m, read), 2000 * 2001 / 2);
}

TEST_P(LoopsOverTasksTest, LoopsAndConditionalsInALoop) {
  StartAll();
  LoopModel m(*w0_);
  const Output y = m.CountTo(30, {m.Number(0)}, [&](const Values& v) {
    const Output is_late = m.Less(m.Number(9), v[0]);
    return Values{Cond(
        m.g, is_late,
        [&] {
          return Values{m.On(kWorker1, [&] {
            return While(
                m.g, {m.Number(0), v[1]},
                [&](const Values& w) { return m.On(kPs, [&] { return m.Less(w[0], v[0]); }); },
                [&](const Values& w) {
                  return Values{m.Add(w[0], m.Number(1)), m.On(kPs, [&] { return m.Add(w[1], w[0]); })};
                })[1];
          })};
        },
        [&] { return Values{m.On(kPs, [&] { return m.Add(v[1], m.Number(1)); })}; })[0]};
  })[1];
  float expected = 10;
  for (int i = 10; i < 30; ++i) expected += static_cast<float>(i * (i - 1) / 2);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(Run(m, y), expected);
}

// What waits for an iteration counts against its sender, and what has been used does not: a step may bring
// more than a peer may have here at once.
TEST_P(LoopsOverTasksTest, AStepMayBringMoreThanATaskMayKeep) {
  options_.peer_limits = "bytes=60000000";
  StartAll();
  for (const int64_t size : {200'000, 2'000'000}) {  // of 0.8 MB, and of 8 MB, in pieces
    session_.reset();
    LoopModel m(*w0_);
    const Output shape = Constant(m.g, Tensor::Vector<int32_t>({static_cast<int32_t>(size)}));
    const Output zeros = m.g.AddOp("Fill", {shape, m.Number(0)});
    const Output y = m.CountTo(size < 1'000'000 ? 150 : 20, {zeros}, [&](const Values& v) {
      return Values{m.On(kPs, [&] { return m.Add(v[1], v[0]); })};
    })[1];
    const Output first = m.g.AddOp("Max", {y, Constant(m.g, Tensor::Scalar(0))});
    const float end = size < 1'000'000 ? 150 : 20;
    EXPECT_EQ(Run(m, first), end * (end - 1) / 2);
  }
}

TEST_P(LoopsOverTasksTest, AnErrorOfAnotherTaskEndsTheLoop) {
  StartAll();
  LoopModel m(*w0_);
  const Output y = m.CountTo(1000, {m.Number(0)}, [&](const Values& v) {
    return Values{m.On(kPs, [&] {
      const Output is_early = m.Less(v[0], m.Number(37));
      Node* const check = m.g.AddNode("Assert", {is_early, Values{v[0]}}, {}, "too_late");
      auto after = m.g.ControlScope({check});
      return m.Add(v[1], m.Number(1));
    })};
  })[1];
  session_ = MakeSession(m);
  for (int step = 0; step < 2; ++step) {
    const absl::Status status = session_->Run({}, {y}, {}, {.timeout = absl::Seconds(60)}).status();
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("too_late"), HasSubstr("37")));
  }
}

TEST_P(LoopsOverTasksTest, AnEndlessLoopEndsWithItsStepAndWithItsTask) {
  StartAll();
  LoopModel m(*w0_);
  const Output y = While(
      m.g, {m.Number(0)},
      [&](const Values& v) {
        return m.Less(m.g.AddOp("Minimum", {v[0], m.Number(0)}), m.Number(1));
      },
      [&](const Values& v) { return Values{m.On(kPs, [&] { return m.Add(v[0], m.Number(1)); })}; })[0];
  session_ = MakeSession(m);
  const auto ran = session_->Run({}, {y}, {}, {.timeout = absl::Milliseconds(300)});
  EXPECT_EQ(ran.status().code(), absl::StatusCode::kDeadlineExceeded) << ran.status();
  std::thread ends([&] {
    absl::SleepFor(absl::Milliseconds(300));
    ps_.reset();
  });
  EXPECT_FALSE(session_->Run({}, {y}, {}, {.timeout = absl::Seconds(60)}).ok());
  ends.join();
  ps_ = Start({"ps", 0});  // the others wait for it before they end
}

// ---- What a peer may send ----

// Plan 5 of the ps: a part whose _Recv is in a loop, which worker 1 sends for edge 0.
PartitionSpec LoopPlan(const OpRegistry& ops, int64_t head_start = 0) {
  const DeviceName device = DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value();
  PartitionSpec spec;
  spec.plan = 5;
  spec.num_edges = 2;
  auto graph = std::make_unique<Graph>(ops);
  for (const int64_t edge : {0, 1}) {
    AttrMap attrs = {{"tensor_type", DType::kFloat32},
                     {"tensor_name", "x:0"},
                     {"send_device", "/job:worker/replica:0/task:1/device:CPU:0"},
                     {"send_device_incarnation", 0},
                     {"recv_device", device.ToString()},
                     {kEdgeAttr, edge}};
    if (edge == 0) {
      attrs[kInLoopAttr] = true;
      attrs[kHeadStartAttr] = head_start;
    }
    Node* received =
        graph->AddNode({.op = kRecvOp, .name = absl::StrCat("recv_", edge), .attrs = attrs}).value();
    graph->SetAssignedDevice(received, device);
  }
  spec.graphs.push_back(std::move(graph));
  return spec;
}

class LoopEdgeTest : public LoopsOverTasksTest {
 protected:
  void Begin() {
    ps_ = Start({"ps", 0});
    w0_ = Start({"worker", 0});
    ASSERT_TRUE(Register().ok());
    channel_ = ConnectToPs();
  }
  absl::Status Register(int64_t head_start = 0) {
    return w0_->target().workers[1]->RegisterPartition(LoopPlan(w0_->runtime().ops(), head_start),
                                                       absl::Now() + absl::Seconds(20));
  }
  absl::Status Push(int edge, int64_t turn, int64_t num_values = 1) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    Frame frame;
    const PushRequest request = {
        {++last_push_}, 5, 1, {{edge, false, Tensor(DType::kFloat32, Shape({num_values})), turn}}};
    EXPECT_TRUE(EncodePush(request, &writer, &frame.payloads).ok());
    frame.header = writer.Take();
    return AnswerOf(*channel_, kPushTensorsMethod, std::move(frame));
  }
  absl::Status PushPiece(int64_t turn) {
    WireWriter writer;
    Envelope{{"worker", 1}, 7, 0}.EncodeTo(&writer);
    TensorPiece piece = {.transfer = {++last_push_}, .plan = 5, .step_id = 1, .edge = 0, .turn = turn};
    piece.type = {DType::kFloat32, Shape({1 << 18})};
    piece.piece_bytes = 1 << 20;
    EncodePiece(piece, &writer);
    return AnswerOf(*channel_, kPushPieceMethod,
                    {writer.Take(), {Payload::OfString(std::string(1 << 20, '\0'))}});
  }

  std::unique_ptr<Channel> channel_;
  uint64_t last_push_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, LoopEdgeTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

TEST_P(LoopEdgeTest, NoMoreThanAFewTensorsOfAnEdgeWait) {
  Begin();
  const int64_t before = HostAllocator().num_bytes_in_use();
  for (int64_t turn = 0; turn < kMaxQueued; ++turn) EXPECT_TRUE(Push(0, turn, 100'000).ok()) << turn;
  const int64_t full = HostAllocator().num_bytes_in_use();
  for (const int64_t turn : {kMaxQueued, kMaxQueued + 1, int64_t{1} << 40, INT64_MAX - 1}) {
    EXPECT_EQ(Push(0, turn, 100'000).code(), absl::StatusCode::kResourceExhausted) << turn;
    EXPECT_EQ(PushPiece(turn).code(), absl::StatusCode::kResourceExhausted) << turn;
  }
  EXPECT_THAT(std::string(Push(0, 3).message()), HasSubstr("a second one"));
  EXPECT_LE(HostAllocator().num_bytes_in_use(), full + 100'000);
  // The step's end frees what waits.
  w0_->target().workers[1]->CancelStep(5, 1, absl::CancelledError("enough"));
  for (int i = 0; i < 1000 && HostAllocator().num_bytes_in_use() > before; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(HostAllocator().num_bytes_in_use(), before);
}

TEST_P(LoopEdgeTest, ATurnMustFitItsEdge) {
  Begin();
  EXPECT_THAT(std::string(Push(0, kOnlyTurn).message()), HasSubstr("without its turn"));
  EXPECT_THAT(std::string(Push(1, 0).message()), HasSubstr("in no loop"));
  EXPECT_THAT(std::string(PushPiece(kOnlyTurn).message()), HasSubstr("without its turn"));
  EXPECT_TRUE(Push(1, kOnlyTurn).ok());
  EXPECT_TRUE(PushPiece(0).ok());
}

TEST_P(LoopEdgeTest, AHeadStartIsBounded) {
  ps_ = Start({"ps", 0});
  w0_ = Start({"worker", 0});
  for (const int64_t head_start : {int64_t{-1}, int64_t{kLoopLead} + 1, INT64_MAX}) {
    const absl::Status status = Register(head_start);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("_head_start"));
  }
  EXPECT_TRUE(Register(kLoopLead).ok());
}

}  // namespace
}  // namespace weir
