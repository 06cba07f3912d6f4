// Models on several devices of a process, and on those of several processes.
#include "distributed/mirrored_strategy.h"

#include <cmath>
#include <latch>
#include <thread>

#include "absl/strings/str_cat.h"
#include "distributed/horovod.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "kernels/formats/bundle_reader.h"
#include "ops/layers/layers.h"
#include "ops/regularizers.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/adam.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRows = 4;  // of one replica's part of a batch

// y = x w + b, in two variables, and an embedding whose rows get sparse gradients.
struct LinearTower {
  LinearTower() = default;
  LinearTower(GraphBuilder& g, Output x, Output ids) {
    weights = MakeVariable(g, "w", Tensor::From<float>({3, 1}, {1, 2, 3}));
    bias = MakeVariable(g, "b", Tensor::Vector<float>({0.5f}));
    table = MakeVariable(g, "table", Tensor::From<float>({4, 1}, {1, 1, 1, 1}));
    const Output y = Add(g, MatMul(g, x, weights.value), bias.value);
    const Output rows = ResourceGather(g, table.handle, ids, DType::kFloat32);
    loss = Mean(g, Square(g, Sub(g, y, rows)), ConstIntegers(g, {0, 1}));
  }
  Output loss;
  ModelVariable weights, bias, table;
};

// The batch of `count` ranks from `rank` on.
struct LinearBatch {
  LinearBatch(int rank, int count, int64_t step)
      : x(DType::kFloat32, Shape({kRows * count, 3})), ids(DType::kInt32, Shape({kRows * count})) {
    for (int i = 0; i < kRows * count; ++i) {
      const int row = kRows * rank + i;
      for (int k = 0; k < 3; ++k) {
        x.flat<float>()[3 * i + k] = std::sin(static_cast<float>(3 * row + k + 100 * step));
      }
      ids.flat<int32_t>()[i] = static_cast<int32_t>((i * (row / kRows) + step) % 4);
    }
  }
  Tensor x, ids;
};

using Weights = std::vector<std::vector<float>>;

struct Trained {
  Weights weights;              // of the first copies: w, b, table, w/Momentum
  std::vector<Weights> copies;  // of all other devices
  float loss = 0;               // of the last step
  absl::Status status;
};

absl::StatusOr<Weights> Read(Session& session, const std::string& scope) {
  std::vector<TensorRef> names;
  for (const char* const name : {"w", "b", "table", "w/Momentum"}) {
    names.push_back(absl::StrCat(scope, name, "/Read/ReadVariableOp:0"));
  }
  const absl::StatusOr<std::vector<Tensor>> values = session.Run({}, names);
  if (!values.ok()) return values.status();
  Weights weights;
  for (const Tensor& value : *values) weights.push_back(Values(value));
  return weights;
}

struct TrainOptions {
  int64_t last_step = 20;
  std::string checkpoint_dir;
  HookPtr first_hook;
  int64_t leaves_at = -1;  // the process ends as if it had crashed, before the step of that number
  int first_rank = 0;
};

// Trains with the strategy on this process's part of the batches.
Trained Train(MirroredStrategy& strategy, const SessionTarget& target, const TrainOptions& options = {}) {
  Trained trained;
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1, 3});
  const Output ids = Placeholder(g, DType::kInt32, {-1});
  const std::vector<Output> xs = strategy.Split(g, x), all_ids = strategy.Split(g, ids);
  const std::vector<Output> losses = strategy.Run(g, [&](const Replica& replica) {
    return LinearTower(g, xs[replica.index], all_ids[replica.index]).loss;
  });
  const auto optimizer = strategy.MakeOptimizer([] { return Momentum(0.1, 0.9); });
  const absl::StatusOr<Node*> train = optimizer->Minimize(g, losses, GlobalStep(g));
  if (!train.ok()) return {.status = train.status()};
  const Output loss = strategy.Reduce(g, losses);
  std::vector<HookPtr> hooks = {StopAtStepHook({.last_step = options.last_step})};
  if (options.first_hook != nullptr) hooks.insert(hooks.begin(), options.first_hook);
  absl::StatusOr<std::unique_ptr<MonitoredSession>> session =
      MonitoredTrainingSession(g, {.target = target,
                                   .checkpoint_dir = options.checkpoint_dir,
                                   .hooks = hooks,
                                   .log_step_count_steps = 0});
  if (!session.ok()) return {.status = session.status()};
  while (!(*session)->should_stop()) {
    const absl::StatusOr<int64_t> step = (*session)->GlobalStep();
    if (!step.ok()) return {.status = step.status()};
    if (*step == options.leaves_at) return {.status = absl::UnavailableError("crashed")};
    const LinearBatch batch(options.first_rank, strategy.num_devices(), *step);
    const absl::StatusOr<std::vector<Tensor>> values =
        (*session)->Run({{x, batch.x}, {ids, batch.ids}}, {loss}, {*train});
    if (!values.ok()) return {.status = values.status()};
    trained.loss = (*values)[0].scalar<float>();
  }
  for (int i = 0; i < strategy.num_devices(); ++i) {
    const absl::StatusOr<Weights> read =
        Read((*session)->session(), i == 0 ? "" : absl::StrCat("replica_", i, "/"));
    // The slots are made in another pass.
    if (i == 0) {
      trained.status.Update(read.status());
      trained.weights = read.value_or(Weights());
      continue;
    }
    std::vector<TensorRef> names;
    for (const char* const name : {"w", "b", "table", "w/Momentum"}) {
      names.push_back(absl::StrCat("replica_", i, "/", name, "/Read/ReadVariableOp:0"));
    }
    trained.status.Update(read.status());
    trained.copies.push_back(read.value_or(Weights()));
  }
  trained.status.Update((*session)->Close());
  return trained;
}

// The same without a strategy: one device and whole batches.
Weights TrainAlone(int size, int64_t last_step) {
  const auto server = Server::Start(TaskConfig()).value();
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1, 3});
  const Output ids = Placeholder(g, DType::kInt32, {-1});
  const LinearTower tower(g, x, ids);
  Node* const train = Momentum(0.1, 0.9).Minimize(g, tower.loss, GlobalStep(g)).value();
  const auto session = MonitoredTrainingSession(g, {.target = server->target(),
                                                    .hooks = {StopAtStepHook({.last_step = last_step})}})
                           .value();
  for (int64_t step = 0; !session->should_stop(); ++step) {
    const LinearBatch batch(0, size, step);
    EXPECT_TRUE(session->Run({{x, batch.x}, {ids, batch.ids}}, {}, {train}).ok());
  }
  return Read(session->session(), "").value();
}

// The same by Horovod, one process for each rank. Weights of rank 0.
Weights TrainByHorovod(int size, int64_t last_step) {
  ClusterSpec cluster;
  const std::vector<int> ports = FindFreePorts(size).value();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(cluster.AddTask({"worker", rank}, absl::StrCat("127.0.0.1:", ports[rank])).ok());
  }
  const auto transport = MakeInprocTransport(MakeInprocNetwork());
  Weights weights;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto server =
          Server::Start(TaskConfig::Create(cluster, {"worker", rank}).value(),
                        {.num_threads = 1, .lease = absl::Seconds(20), .transport = transport.get()})
              .value();
      const auto hvd = Horovod::Init(*server).value();
      GraphBuilder g(StandardOps());
      const Output x = Placeholder(g, DType::kFloat32, {-1, 3});
      const Output ids = Placeholder(g, DType::kInt32, {-1});
      const LinearTower tower(g, x, ids);
      Node* const train =
          hvd->DistributedOptimizer(Momentum(0.1, 0.9))->Minimize(g, tower.loss, GlobalStep(g)).value();
      const auto session =
          MonitoredTrainingSession(
              g, {.target = server->target(),
                  .hooks = {hvd->BroadcastGlobalVariablesHook(), StopAtStepHook({.last_step = last_step})}})
              .value();
      for (int64_t step = 0; !session->should_stop(); ++step) {
        const LinearBatch batch(rank, 1, step);
        EXPECT_TRUE(session->Run({{x, batch.x}, {ids, batch.ids}}, {}, {train}).ok());
      }
      if (rank == 0) weights = Read(session->session(), "").value();
      EXPECT_TRUE(session->Close().ok());
      server->Shutdown();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return weights;
}

void ExpectNear(const Weights& a, const Weights& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t k = 0; k < a[i].size(); ++k) EXPECT_NEAR(a[i][k], b[i][k], tolerance) << i << " " << k;
  }
}

std::unique_ptr<Server> LoneServer(int num_cpus, int num_fake_gpus = 0) {
  return Server::Start(TaskConfig(), {.num_cpus = num_cpus, .num_fake_gpus = num_fake_gpus, .num_threads = 2})
      .value();
}

TEST(MirroredStrategyTest, DevicesTrainAsRanksAndAsOneDeviceWithWholeBatches) {
  for (const auto& [num_cpus, num_gpus] : {std::pair(2, 0), std::pair(1, 2), std::pair(3, 0)}) {
    const auto server = LoneServer(num_cpus, num_gpus);
    const auto strategy = MirroredStrategy::Create(server->runtime()).value();
    const int size = std::max(num_cpus, num_gpus);
    EXPECT_EQ(strategy->num_replicas_in_sync(), size);
    EXPECT_EQ(strategy->devices().back(), absl::StrCat("/device:", num_gpus > 0 ? "GPU:" : "CPU:", size - 1));
    const Trained trained = Train(*strategy, server->target());
    ASSERT_TRUE(trained.status.ok()) << trained.status;
    EXPECT_EQ(trained.weights, TrainByHorovod(size, 20));
    ExpectNear(trained.weights, TrainAlone(size, 20), 1e-5f);
    ASSERT_EQ(trained.copies.size(), size - 1);
    for (const Weights& copy : trained.copies) EXPECT_EQ(copy, trained.weights);
    EXPECT_GT(trained.loss, 0);
  }
}

TEST(MirroredStrategyTest, AllDevicesBeginWithTheSameRandomValues) {
  const auto server = LoneServer(2);
  const auto strategy =
      MirroredStrategy::Create(server->runtime(), {.devices = {"/cpu:1", "/cpu:0"}}).value();
  GraphBuilder g(StandardOps());
  const std::vector<ModelVariable> kernels = strategy->Run(g, [&](const Replica&) {
    layers::Dense(g, Placeholder(g, DType::kFloat32, {-1, 5}), 7);
    return TrainableVariables(g).front();
  });
  EXPECT_EQ(kernels[0].name, "dense/kernel");
  EXPECT_EQ(kernels[1].name, "replica_1/dense/kernel");
  EXPECT_EQ(kernels[0].handle.node->requested_device().ToString(), "/device:CPU:1");
  EXPECT_EQ(kernels[1].handle.node->requested_device().ToString(), "/device:CPU:0");
  const auto session = MonitoredTrainingSession(g, {.target = server->target()}).value();
  const std::vector<Tensor> values = session->session().Run({}, {kernels[0].value, kernels[1].value}).value();
  EXPECT_EQ(Values(values[0]), Values(values[1]));
  EXPECT_NE(Values(values[0])[0], Values(values[0])[1]);
}

TEST(MirroredStrategyTest, ACheckpointIsThatOfTheModelAndOfAnyNumberOfDevices) {
  const std::string directory = testing::TempDir() + "/any_number";
  int64_t last_step = 0;
  for (const int num_devices : {2, 3, 1, 2}) {
    const auto server = LoneServer(num_devices);
    const auto strategy = MirroredStrategy::Create(server->runtime()).value();
    last_step += 5;
    const Trained trained =
        Train(*strategy, server->target(), {.last_step = last_step, .checkpoint_dir = directory});
    ASSERT_TRUE(trained.status.ok()) << trained.status;
    for (const Weights& copy : trained.copies) EXPECT_EQ(copy, trained.weights);
    const auto checkpoint = BundleReader::Open(absl::StrCat(directory, "/model.ckpt-", last_step)).value();
    EXPECT_THAT(checkpoint->names(),
                ElementsAre("b", "b/Momentum", "global_step", "table", "table/Momentum", "w", "w/Momentum"));
    EXPECT_EQ(Values(checkpoint->Read("w").value()), trained.weights[0]);
  }
}

TEST(MirroredStrategyTest, ASaverOfItsOwnRestoresAllCopies) {
  const auto server = LoneServer(2);
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  for (const bool sharded : {false, true}) {
    GraphBuilder g(StandardOps());
    const std::vector<ModelVariable> variables = strategy->Run(g, [&](const Replica&) {
      return MakeVariable(g, "v", Tensor::Vector<float>({1, 2}));
    });
    const auto saver = Saver::Build(g, {.sharded = sharded}).value();
    Node* const init = InitializeVariables(g);
    Node* const init_local = InitializeLocalVariables(g);
    const auto session = server->CreateSession(g.graph()).value();
    ASSERT_TRUE(session->Run({}, {}, {init}).ok());
    ASSERT_TRUE(session->Run({}, {}, {init_local}).ok());
    const auto path = saver->Save(*session, absl::StrCat(testing::TempDir(), "/own_saver", sharded));
    ASSERT_TRUE(path.ok()) << path.status();
    for (const ModelVariable& variable : variables) {
      Node* const zero = AssignVariableOp(g, variable.handle, Const(g, Tensor::Vector<float>({0, 0})));
      ASSERT_TRUE(g.ok()) << g.status();
      const auto other = server->CreateSession(g.graph()).value();
      ASSERT_TRUE(other->Run({}, {}, {zero}).ok());
    }
    ASSERT_TRUE(saver->Restore(*session, *path).ok());
    for (const ModelVariable& variable : variables) {
      EXPECT_THAT(Values(session->Run({}, {variable.value}).value()[0]), ElementsAre(1, 2));
    }
  }
}

TEST(MirroredStrategyTest, WhatTowersCollect) {
  const auto server = LoneServer(2);
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  GraphBuilder g(StandardOps());
  const std::vector<size_t> num_losses = strategy->Run(g, [&](const Replica& replica) {
    EXPECT_EQ(replica.num_replicas_in_sync, 2);
    EXPECT_EQ(replica.rank, replica.index);
    const Output x = Placeholder(g, DType::kFloat32, {-1, 2});
    layers::Dense(g, layers::BatchNormalization(g, x, true), 1, nullptr,
                  {.kernel_regularizer = regularizers::L2(0.1)});
    AddScalarSummary(g, "x", ReduceMean(g, x));
    GlobalStep(g);
    return g.graph().collections()["regularization_losses"].size();
  });
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(num_losses, ElementsAre(1, 1));
  EXPECT_EQ(g.graph().collections()["regularization_losses"].size(), 1);
  EXPECT_EQ(g.graph().collections()["summaries"].size(), 1);
  EXPECT_EQ(g.graph().collections()["update_ops"].size(), 4);  // mean and variance, on each device
  std::vector<std::string> names;
  for (const ModelVariable& variable : AllVariables(g)) names.push_back(variable.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("batch_normalization/gamma", "batch_normalization/beta",
                                                   "batch_normalization/moving_mean",
                                                   "batch_normalization/moving_variance", "dense/kernel",
                                                   "dense/bias", "global_step"));
}

TEST(MirroredStrategyTest, ReductionsOfValues) {
  const auto server = LoneServer(3);
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  GraphBuilder g(StandardOps());
  const std::vector<Output> values = strategy->Run(g, [&](const Replica& replica) {
    return Const(g, Tensor::Vector<float>({static_cast<float>(replica.rank), 5}));
  });
  const Output mean = strategy->Reduce(g, values);
  const Output sum = strategy->Reduce(g, values, Reduction::kSum, false);
  const Output most = strategy->Reduce(g, values, Reduction::kMax);
  const auto session = server->CreateSession(g.graph()).value();
  for (int turn = 0; turn < 3; ++turn) {
    const auto got = session->Run({}, {mean, sum, most});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(Values((*got)[0]), ElementsAre(1, 5));
    EXPECT_THAT(Values((*got)[1]), ElementsAre(3, 15));
    EXPECT_THAT(Values((*got)[2]), ElementsAre(2, 5));
  }
}

TEST(MirroredStrategyTest, AFailedStepEndsAndTheNextOneRuns) {
  const auto server = LoneServer(2);
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  GraphBuilder g(StandardOps());
  const Output batch = Placeholder(g, DType::kFloat32, {-1});
  const std::vector<Output> parts = strategy->Split(g, batch);
  const std::vector<Output> checked = strategy->Run(g, [&](const Replica& replica) {
    return replica.index == 1 ? CheckNumerics(g, ReduceSum(g, parts[1]), "the sum of part 1")
                              : ReduceSum(g, parts[0]);
  });
  const Output sum = strategy->Reduce(g, checked, Reduction::kSum, false);
  ASSERT_TRUE(g.ok()) << g.status();
  const auto session = server->CreateSession(g.graph()).value();
  const absl::Status failed =
      session->Run({{batch, Tensor::Vector<float>({1, std::nanf("")})}}, {sum}).status();
  EXPECT_THAT(std::string(failed.message()), HasSubstr("the sum of part 1"));
  const absl::Status uneven = session->Run({{batch, Tensor::Vector<float>({1, 2, 3})}}, {sum}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(uneven)) << uneven;
  const auto good = session->Run({{batch, Tensor::Vector<float>({1, 2})}}, {sum});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(Values((*good)[0]), ElementsAre(3));
}

TEST(MirroredStrategyTest, MistakesAreNamed) {
  const auto server = LoneServer(2);
  const auto refusal = [&](std::vector<std::string> devices) {
    return std::string(
        MirroredStrategy::Create(server->runtime(), {.devices = std::move(devices)}).status().message());
  };
  EXPECT_THAT(refusal({"/cpu:0", "/gpu:0"}),
              HasSubstr("no device '/gpu:0' in this process, which has /device:CPU:0, /device:CPU:1"));
  EXPECT_THAT(refusal({"/cpu:1", "/device:CPU:1"}), HasSubstr("'/device:CPU:1' is listed twice"));
  EXPECT_THAT(refusal({"cpu"}), HasSubstr("cpu"));
  EXPECT_THAT(
      std::string(
          MirroredStrategy::Create(server->runtime(), {.gradients = {.bucket_bytes = 0}}).status().message()),
      HasSubstr("bucket_bytes"));
  EXPECT_TRUE(absl::IsUnimplemented(
      MirroredStrategy::Create(server->runtime(), {.gradients = {.backward_passes_per_step = 2}}).status()));
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  const auto error = [&](const std::function<void(GraphBuilder&)>& build) {
    GraphBuilder g(StandardOps());
    build(g);
    return std::string(g.status().message());
  };
  EXPECT_THAT(error([&](GraphBuilder& g) {
                strategy->Run(g, [&](const Replica& replica) {
                  return MakeVariable(g, "v", DType::kFloat32, Shape({2 + replica.index}),
                                      initializers::Zeros());
                });
              }),
              HasSubstr("as number 1 that of replica 0 makes 'v', float[2], that of replica 1 "
                        "'replica_1/v', float[3]"));
  EXPECT_THAT(error([&](GraphBuilder& g) {
                strategy->Run(g, [&](const Replica& replica) {
                  return replica.index == 1 ? ModelVariable() : MakeVariable(g, "v", Tensor::Scalar(1.0f));
                });
              }),
              HasSubstr("makes 'v', float[], that of replica 1 none"));
  EXPECT_THAT(error([&](GraphBuilder& g) {
                const ModelVariable v = MakeVariable(g, "outside", Tensor::Scalar(1.0f));
                const auto losses = strategy->Run(g, [&](const Replica&) { return Square(g, v.value); });
                strategy->MakeOptimizer([] { return Momentum(0.1, 0.9); })
                    ->Minimize(g, losses)
                    .status()
                    .IgnoreError();
              }),
              HasSubstr("the variable 'outside' has no copy on each device"));
  EXPECT_THAT(error([&](GraphBuilder& g) { strategy->Reduce(g, {Const(g, 1.0f)}); }),
              HasSubstr("2 devices in this process, but 1 values to reduce"));
  EXPECT_THAT(error([&](GraphBuilder& g) {
                strategy->MakeOptimizer([] { return std::unique_ptr<Optimizer>(); })
                    ->Minimize(g, {Const(g, 1.0f), Const(g, 1.0f)})
                    .status()
                    .IgnoreError();
              }),
              HasSubstr("the optimizer is null"));
}

// Adam has variables besides its slots.
TEST(MirroredStrategyTest, OptimizersWithVariablesOfTheirOwn) {
  const auto server = LoneServer(2);
  const auto strategy = MirroredStrategy::Create(server->runtime()).value();
  GraphBuilder g(StandardOps());
  const std::vector<ModelVariable> v = strategy->Run(g, [&](const Replica&) {
    return MakeVariable(g, "v", Tensor::Vector<float>({1, 2}));
  });
  const std::vector<Output> losses = strategy->Run(g, [&](const Replica& replica) {
    return ReduceSum(g, Mul(g, v[replica.index].value, Const(g, 1.0f + static_cast<float>(replica.index))));
  });
  Node* const train = strategy->MakeOptimizer([] { return Adam(0.1); })
                          ->Minimize(g, losses, GlobalStep(g), {.only = NamedBelow("v")})
                          .value();
  std::vector<std::string> names;
  for (const ModelVariable& variable : AllVariables(g)) names.push_back(variable.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("v", "v/Adam", "v/Adam_1", "beta1_power", "beta2_power",
                                                   "global_step"));
  EXPECT_EQ(g.graph().collections()["train_op"], std::vector<std::string>{train->name()});
  const auto session = MonitoredTrainingSession(g, {.target = server->target()}).value();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(session->Run({}, {}, {train}).ok());
  EXPECT_EQ(session->GlobalStep().value(), 3);
  const std::vector<Tensor> values = session->session().Run({}, {v[0].value, v[1].value}).value();
  // Adam's steps are of the learning rate where the gradient stays the same.
  EXPECT_NEAR(Values(values[0])[0], 0.7f, 1e-5f);
  EXPECT_EQ(Values(values[0]), Values(values[1]));
}

// The gradients of a are orthogonal, those of b parallel.
TEST(MirroredStrategyTest, GradientsAreReducedAsTheOptionsSay) {
  const std::pair<GradientReduction, std::vector<float>> cases[] = {
      {GradientReduction::kAverage, {0.5f, 1, 3, 4}},
      {GradientReduction::kSum, {1, 2, 6, 8}},
      {GradientReduction::kAdasum, {1, 2, 3, 4}}};
  for (const auto& [reduction, expected] : cases) {
    for (const int num_gpus : {0, 2}) {
      const auto server = LoneServer(2, num_gpus);
      const auto strategy =
          MirroredStrategy::Create(server->runtime(), {.gradients = {.reduction = reduction}}).value();
      GraphBuilder g(StandardOps());
      using Pair = std::pair<ModelVariable, ModelVariable>;
      const std::vector<Pair> made = strategy->Run(g, [&](const Replica&) {
        return Pair(MakeVariable(g, "a", Tensor::Vector<float>({0, 0})),
                    MakeVariable(g, "b", Tensor::Vector<float>({0, 0})));
      });
      const std::vector<Output> losses = strategy->Run(g, [&](const Replica& replica) {
        const auto& [a, b] = made[replica.index];
        const Output to_a =
            Const(g, replica.index == 0 ? Tensor::Vector<float>({1, 0}) : Tensor::Vector<float>({0, 2}));
        const Output to_b = Const(g, Tensor::Vector<float>({3, 4}));
        return Add(g, ReduceSum(g, Mul(g, a.value, to_a)), ReduceSum(g, Mul(g, b.value, to_b)));
      });
      const auto optimizer = strategy->MakeOptimizer([] { return Momentum(-1.0, 0.0); });
      Node* const train = optimizer->Minimize(g, losses, GlobalStep(g)).value();
      const auto session = MonitoredTrainingSession(g, {.target = server->target()}).value();
      const absl::Status status = session->Run({}, {}, {train}).status();
      ASSERT_TRUE(status.ok()) << status;
      for (const auto& [a, b] : made) {
        std::vector<float> values;
        const std::vector<Tensor> trained = session->session().Run({}, {a.value, b.value}).value();
        for (const Tensor& value : trained) {
          for (const float one : Values(value)) values.push_back(one);
        }
        EXPECT_EQ(values, expected);
      }
    }
  }
}

class MultiWorkerTest : public testing::TestWithParam<bool> {
 protected:
  void MakeCluster(int size) {
    cluster_ = ClusterSpec();
    ports_ = ReservedPorts::Take(size).value();
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(cluster_.AddTask({"worker", rank}, absl::StrCat("127.0.0.1:", ports_[rank])).ok());
    }
  }

  std::unique_ptr<Server> Start(int worker, int num_devices) {
    ServerOptions options;
    options.num_cpus = num_devices;
    options.lease = absl::Seconds(20);
    options.num_threads = 1;
    if (!GetParam()) options.transport = &faults_;
    return Server::Start(TaskConfig::Create(cluster_, {"worker", worker}).value(), options).value();
  }

  static Trained TrainWorker(Server& server, int64_t leaves_at = -1) {
    const auto strategy = MultiWorkerMirroredStrategy::Create(server, {.timeout = absl::Seconds(20)});
    if (!strategy.ok()) return {.status = strategy.status()};
    return Train(**strategy, server.target(),
                 {.first_hook = (*strategy)->BroadcastGlobalVariablesHook(),
                  .leaves_at = leaves_at,
                  .first_rank = (*strategy)->worker() * (*strategy)->num_devices()});
  }

  template <typename F>
  static void OnAllWorkers(int size, F worker) {
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) threads.emplace_back([&worker, i] { worker(i); });
    for (std::thread& thread : threads) thread.join();
  }

  ReservedPorts ports_;  // workers are started again
  ClusterSpec cluster_;
  FaultTransport faults_{MakeInprocTransport(MakeInprocNetwork())};
};

TEST_P(MultiWorkerTest, DevicesOfWorkersTrainAsThatManyRanks) {
  for (const auto& [num_workers, num_devices] : {std::pair(2, 2), std::pair(3, 1)}) {
    MakeCluster(num_workers);
    std::vector<Trained> trained(num_workers);
    OnAllWorkers(num_workers, [&, num_devices = num_devices](int worker) {
      const auto server = Start(worker, num_devices);
      trained[worker] = TrainWorker(*server);
      server->Shutdown(trained[worker].status);
    });
    const Weights expected = TrainByHorovod(num_workers * num_devices, 20);
    for (const Trained& one : trained) {
      ASSERT_TRUE(one.status.ok()) << one.status;
      EXPECT_EQ(one.weights, expected);
      EXPECT_EQ(one.loss, trained[0].loss);
      for (const Weights& copy : one.copies) EXPECT_EQ(copy, expected);
    }
  }
}

TEST_P(MultiWorkerTest, AWorkerThatIsLostAndStartedAgainChangesNothing) {
  MakeCluster(2);
  std::vector<Trained> trained(2);
  OnAllWorkers(2, [&](int worker) {
    auto server = Start(worker, 2);
    trained[worker] = TrainWorker(*server, worker == 1 ? 7 : -1);
    server->Shutdown(trained[worker].status);
    if (worker != 1) return;
    server = nullptr;
    server = Start(worker, 2);
    trained[worker] = TrainWorker(*server);
    server->Shutdown(trained[worker].status);
  });
  const Weights expected = TrainByHorovod(4, 20);
  for (const Trained& one : trained) {
    ASSERT_TRUE(one.status.ok()) << one.status;
    EXPECT_EQ(one.weights, expected);
    for (const Weights& copy : one.copies) EXPECT_EQ(copy, expected);
  }
}

TEST_P(MultiWorkerTest, WorkersWithOtherNumbersOfDevicesAreNamed) {
  MakeCluster(2);
  std::vector<Trained> trained(2);
  std::latch all_know(2);
  OnAllWorkers(2, [&](int worker) {
    const auto server = Start(worker, 1 + worker);
    trained[worker] = TrainWorker(*server);
    all_know.arrive_and_wait();
    server->Shutdown(trained[worker].status);
  });
  for (const Trained& one : trained) {
    EXPECT_TRUE(absl::IsInvalidArgument(one.status)) << one.status;
    EXPECT_THAT(std::string(one.status.message()), HasSubstr("all workers must have as many devices"));
  }
}

Output RateQueue(GraphBuilder& g) {
  return g.AddOp("FIFOQueueV2", {},
                 {{"component_types", std::vector<DType>{DType::kFloat32}}, {"shared_name", "rates"}});
}

// Takes its learning rate out of a queue.
class WaitingDescent final : public Optimizer {
 public:
  WaitingDescent() : Optimizer("WaitingDescent") {}

 private:
  Node* Update(GraphBuilder& g, const ModelVariable& variable, Output gradient) override {
    const auto after = g.ControlScope({gradient.node});
    const Output rate =
        g.AddOp("QueueDequeueV2", {RateQueue(g)}, {{"component_types", std::vector<DType>{DType::kFloat32}}});
    return ResourceApplyGradientDescent(g, variable.handle, Reshape(g, rate, ConstIntegers(g, {})), gradient);
  }
};

// The first device has updated when the second one fails.
TEST_P(MultiWorkerTest, AStepThatEndsAmidItsUpdatesHasTornTheVariables) {
  MakeCluster(2);
  std::latch all_know(2);
  OnAllWorkers(2, [&](int worker) {
    const auto server = Start(worker, 2);
    const auto strategy = MultiWorkerMirroredStrategy::Create(*server).value();
    GraphBuilder g(StandardOps());
    const std::vector<ModelVariable> v =
        strategy->Run(g, [&](const Replica&) { return MakeVariable(g, "v", Tensor::Scalar(3.0f)); });
    const std::vector<Output> losses = strategy->Run(
        g, [&](const Replica& replica) { return Mul(g, v[replica.index].value, Const(g, 1.0f)); });
    int num_made = 0;
    const auto optimizer = strategy->MakeOptimizer([&]() -> std::unique_ptr<Optimizer> {
      if (worker == 0 && ++num_made == 2) return std::make_unique<WaitingDescent>();
      return std::make_unique<GradientDescent>(1.0);
    });
    Node* const train = optimizer->Minimize(g, losses, GlobalStep(g)).value();
    const auto close_rates = [&] {
      const auto device = g.DeviceScope(strategy->devices()[1]);
      return g.AddNode("QueueCloseV2", {RateQueue(g)});
    };
    Node* const closed = close_rates();
    const auto monitored = MonitoredTrainingSession(g, {.target = server->target(),
                                                        .hooks = {strategy->BroadcastGlobalVariablesHook()}})
                               .value();
    Session& session = monitored->session();
    const auto value_of = [&](int device) {
      return session.Run({}, {v[device].value}).value()[0].scalar<float>();
    };
    absl::Status status;
    std::thread step([&] { status = session.Run({}, {}, {train}).status(); });
    while (value_of(0) == 3) absl::SleepFor(absl::Milliseconds(1));
    if (worker == 0) session.Run({}, {}, {closed}).IgnoreError();
    step.join();
    EXPECT_EQ(status.ok(), worker == 1) << status;
    EXPECT_EQ(value_of(0), 2);
    EXPECT_EQ(value_of(1), worker == 0 ? 3 : 2);
    EXPECT_EQ(server->replicas()->ranks()->has_torn_updates(), worker == 0);
    all_know.arrive_and_wait();
    server->Shutdown(status);
  });
}

TEST_P(MultiWorkerTest, WorkersWithDifferentGraphsAreToldTheDifference) {
  MakeCluster(2);
  OnAllWorkers(2, [&](int worker) {
    const auto server = Start(worker, 2);
    const auto strategy = MultiWorkerMirroredStrategy::Create(*server).value();
    GraphBuilder g(StandardOps());
    const std::vector<Output> losses = strategy->Run(
        g, [&](const Replica&) { return Square(g, MakeVariable(g, "v", Tensor::Scalar(3.0f)).value); });
    if (worker == 1) strategy->Reduce(g, losses);
    ASSERT_TRUE(strategy->MakeOptimizer([] { return Adam(0.1); })->Minimize(g, losses, GlobalStep(g)).ok());
    const absl::Status status =
        MonitoredTrainingSession(
            g, {.target = server->target(), .hooks = {strategy->BroadcastGlobalVariablesHook()}})
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the ranks' graphs differ: rank 0 (worker:0) has"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker:1) has key"));
    server->Shutdown(status);
  });
}

TEST_P(MultiWorkerTest, AProgramThatRunsAloneIsOneWorker) {
  if (GetParam()) GTEST_SKIP() << "without a network";
  const auto server = LoneServer(2);
  const Trained trained = TrainWorker(*server);
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  EXPECT_EQ(trained.weights, TrainByHorovod(2, 20));
}

INSTANTIATE_TEST_SUITE_P(Transports, MultiWorkerTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
