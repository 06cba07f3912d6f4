// Clusters of servers in one process: over the in-process transport and over gRPC.
#include "distributed/server.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/replica_device_setter.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"
#include "kernels/variable.h"
#include "ops/control_flow.h"
#include "ops/register_ops.h"
#include "session/partial_run.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

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
    EXPECT_EQ(ps->local_worker().num_plans(), 2);
    EXPECT_EQ(w0->local_worker().num_plans(), 1) << "variables are initialised without the worker";
  }
  // The ps is told, and that may take a moment.
  for (const absl::Time end = absl::Now() + absl::Seconds(60);
       ps->local_worker().num_plans() > 0 && absl::Now() < end;) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(ps->local_worker().num_plans(), 0);
  EXPECT_EQ(w0->local_worker().num_plans(), 0);
  EXPECT_TRUE(w0->CreateSession(model.g.graph()).value()->Run({}, {model.doubled}).ok());
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

// y = x / 2; a graph that has it comes to the ps as bytes, which are read with the ops that the ps knows.
absl::Status Halve(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, context.input(0).shape()));
  for (int64_t i = 0; i < y->num_elements(); ++i) y->flat<float>()[i] = context.input(0).flat<float>()[i] / 2;
  return absl::OkStatus();
}

TEST_P(ServerTest, AProgramsOwnOpRunsOnEveryTask) {
  OpRegistry ops;
  ASSERT_TRUE(RegisterStandardOps(ops).ok());
  ASSERT_TRUE(ops.Register({.name = "Halve",
                            .summary = "Gives x / 2.",
                            .inputs = {"x: float"},
                            .outputs = {"y: float"},
                            .infer_shapes = UnchangedShape,
                            .gradient = NotDifferentiable})
                  .ok());
  options_.ops = &ops;
  options_.register_kernels = [](KernelRegistry& registry, absl::string_view device_type) {
    DeviceKernels(registry, device_type).Add<&Halve>("Halve");
  };
  auto ps = Start({"ps", 0}), w0 = Start({"worker", 0});
  GraphBuilder g(ops);
  Output x, on_ps, on_worker;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({-1})}});
    on_ps = g.AddOp("Halve", {x});
  }
  {
    auto device = g.DeviceScope("/job:worker/task:0");
    on_worker = g.AddOp("Halve", {on_ps});
  }
  ASSERT_TRUE(g.ok()) << g.status();
  auto session = w0->CreateSession(g.graph()).value();
  const auto result = session->Run({{x, Tensor::Vector<float>({8, -6})}}, {on_ps, on_worker});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Values((*result)[0]), ElementsAre(4, -3));
  EXPECT_THAT(Values((*result)[1]), ElementsAre(2, -1.5));
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
  const ReservedPorts ports = ReservedPorts::Take(1).value();
  const int port = ports[0];
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
