// What replicas of one model train, and what becomes of those that are lost.
#include "distributed/horovod.h"

#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/test_replicas.h"
#include "distributed/transport/transport.h"
#include "gmock/gmock.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Trained {
  std::vector<float> weights, bias, table;
  absl::Status status;
};

// `leaves_at`: the rank ends as if it had crashed, before the step of that number.
Trained TrainRank(Server& server, int64_t last_step, const DistributedOptimizerOptions& options = {},
                  int64_t leaves_at = -1, const HorovodOptions& horovod = {}) {
  Trained trained;
  absl::StatusOr<std::unique_ptr<Horovod>> hvd = Horovod::Init(server, horovod);
  if (!hvd.ok()) return {.status = hvd.status()};
  GraphBuilder g(StandardOps());
  const LinearModel model(g);
  const auto optimizer = (*hvd)->DistributedOptimizer(Momentum(0.1, 0.9), options);
  const absl::StatusOr<Node*> train = optimizer->Minimize(g, model.loss, GlobalStep(g));
  if (!train.ok()) return {.status = train.status()};
  absl::StatusOr<std::unique_ptr<MonitoredSession>> session = MonitoredTrainingSession(
      g, {.target = server.target(),
          .hooks = {(*hvd)->BroadcastGlobalVariablesHook(), StopAtStepHook({.last_step = last_step})},
          .log_step_count_steps = 0});
  if (!session.ok()) return {.status = session.status()};
  while (trained.status.ok() && !(*session)->should_stop()) {
    const absl::StatusOr<int64_t> step = (*session)->GlobalStep();
    if (!step.ok()) return {.status = step.status()};
    if (*step == leaves_at) return {.status = absl::UnavailableError("crashed")};
    trained.status = (*session)->Run(BatchOf(model, (*hvd)->rank(), *step), {}, {*train}).status();
  }
  if (!trained.status.ok()) return trained;
  const std::vector<Tensor> values =
      (*session)->session().Run({}, {model.weights.value, model.bias.value, model.table.value}).value();
  trained.weights = Values(values[0]);
  trained.bias = Values(values[1]);
  trained.table = Values(values[2]);
  trained.status = (*session)->Close();
  return trained;
}

// The same with one process and the gradients of all ranks' batches.
Trained TrainAlone(int size, int64_t last_step) {
  const auto server = Server::Start(TaskConfig()).value();
  GraphBuilder g(StandardOps());
  const LinearModel model(g);
  Node* const train = Momentum(0.1, 0.9).Minimize(g, model.loss, GlobalStep(g)).value();
  const auto session = MonitoredTrainingSession(g, {.target = server->target(),
                                                    .hooks = {StopAtStepHook({.last_step = last_step})}})
                           .value();
  for (int64_t step = 0; !session->should_stop(); ++step) {
    Tensor x(DType::kFloat32, Shape({4 * size, 3})), ids(DType::kInt32, Shape({4 * size}));
    for (int rank = 0; rank < size; ++rank) {
      const Feeds feeds = BatchOf(model, rank, step);
      std::copy_n(feeds[0].second.flat<float>().begin(), 12, x.flat<float>().begin() + 12 * rank);
      std::copy_n(feeds[1].second.flat<int32_t>().begin(), 4, ids.flat<int32_t>().begin() + 4 * rank);
    }
    EXPECT_TRUE(session->Run({{model.x, x}, {model.ids, ids}}, {}, {train}).ok());
  }
  const std::vector<Tensor> values =
      session->session().Run({}, {model.weights.value, model.bias.value, model.table.value}).value();
  return {Values(values[0]), Values(values[1]), Values(values[2]), absl::OkStatus()};
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

TEST_P(HorovodTest, ReplicasTrainAsOneProcessWithAllBatches) {
  for (const DistributedOptimizerOptions& options :
       {DistributedOptimizerOptions(),
        DistributedOptimizerOptions{.bucket_bytes = 1, .first_bucket_bytes = 1},
        DistributedOptimizerOptions{.compression = GradientCompression::kHalf},
        DistributedOptimizerOptions{.compression = GradientCompression::kBfloat16}}) {
    cluster_ = ClusterSpec();
    MakeCluster(3);
    std::vector<Trained> trained(3);
    OnAllRanks(3, [&](int rank) {
      const auto server = Start(rank);
      trained[rank] = TrainRank(*server, 20, options);
      server->Shutdown(trained[rank].status);
    });
    const Trained alone = TrainAlone(3, 20);
    const float tolerance = options.compression == GradientCompression::kNone ? 1e-5f : 0.05f;
    for (const Trained& one : trained) {
      ASSERT_TRUE(one.status.ok()) << one.status;
      // To the last bit.
      EXPECT_EQ(one.weights, trained[0].weights);
      EXPECT_EQ(one.bias, trained[0].bias);
      EXPECT_EQ(one.table, trained[0].table);
    }
    ExpectNear(trained[0].weights, alone.weights, tolerance);
    ExpectNear(trained[0].bias, alone.bias, tolerance);
    ExpectNear(trained[0].table, alone.table, tolerance);
  }
}

// The survivors go on from where they are, and the one that was started again takes over what they have.
TEST_P(HorovodTest, ARankThatIsLostAndStartedAgainChangesNothing) {
  MakeCluster(3);
  std::vector<Trained> trained(3);
  OnAllRanks(3, [&](int rank) {
    auto server = Start(rank);
    trained[rank] = TrainRank(*server, 20, {}, rank == 1 ? 7 : -1);
    server->Shutdown(trained[rank].status);
    if (rank != 1) return;
    server = nullptr;
    server = Start(rank);
    trained[rank] = TrainRank(*server, 20);
    server->Shutdown(trained[rank].status);
  });
  for (const Trained& one : trained) ASSERT_TRUE(one.status.ok()) << one.status;
  std::vector<Trained> without(3);
  cluster_ = ClusterSpec();
  MakeCluster(3);
  OnAllRanks(3, [&](int rank) {
    const auto server = Start(rank);
    without[rank] = TrainRank(*server, 20);
    server->Shutdown(without[rank].status);
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(trained[rank].weights, without[0].weights);
    EXPECT_EQ(trained[rank].bias, without[0].bias);
    EXPECT_EQ(trained[rank].table, without[0].table);
  }
}

// It is not waited for: the error says what is wrong, on every rank, whichever stops.
TEST_P(HorovodTest, ARankThatStopsEarlierEndsTheOthersWithAnError) {
  for (const auto& [size, early] : {std::pair(2, 0), std::pair(2, 1), std::pair(3, 1)}) {
    cluster_ = ClusterSpec();
    MakeCluster(size);
    std::vector<Trained> trained(size);
    OnAllRanks(size, [&, early = early](int rank) {
      const auto server = Start(rank);
      trained[rank] = TrainRank(*server, rank == early ? 10 : 20);
      server->Shutdown(trained[rank].status);
    });
    for (int rank = 0; rank < size; ++rank) {
      const absl::Status& status = trained[rank].status;
      if (rank == early && rank == 0) {  // it waits for nobody
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("rank ", early, " (worker:", early, ") is done, while collective")));
    }
  }
}

// Rank 0 leaves when all have answered that they know its end.
TEST_P(HorovodTest, ARankKnowsThatRankZeroIsDoneWhenItAnswersSo) {
  if (GetParam()) GTEST_SKIP() << "the fault is of the in-process transport";
  MakeCluster(2);
  faults_.Add({.action = Fault::Action::kPauseAfter, .method = "Finish", .delay = absl::Seconds(1)});
  std::vector<Trained> trained(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    trained[rank] = TrainRank(*server, rank == 0 ? 10 : 20);
    server->Shutdown(trained[rank].status);
  });
  EXPECT_GT(faults_.num_hits(), 0);
  EXPECT_TRUE(trained[0].status.ok()) << trained[0].status;
  EXPECT_TRUE(absl::IsInvalidArgument(trained[1].status)) << trained[1].status;
}

// It may be lost before it has saved, and needs what the others have then.
TEST_P(HorovodTest, RanksStayUntilRankZeroHasEnded) {
  MakeCluster(2);
  std::atomic<bool> first_ends{false}, other_is_at_end{false};
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    Node* const train =
        hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, model.loss, GlobalStep(g)).value();
    const auto session = MonitoredTrainingSession(g, {.target = server->target(),
                                                      .hooks = {hvd->BroadcastGlobalVariablesHook()},
                                                      .log_step_count_steps = 0})
                             .value();
    ASSERT_TRUE(session->Run(BatchOf(model, rank, 0), {}, {train}).ok());
    if (rank == 0) {
      while (!other_is_at_end) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) EXPECT_EQ(session->GlobalStep().value(), 1);
      first_ends = true;
    } else {
      other_is_at_end = true;
    }
    const absl::Status closed = session->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    EXPECT_TRUE(first_ends);
    server->Shutdown();
  });
}

// Neither a wait without end nor a sum of tensors that have nothing to do with one another.
TEST_P(HorovodTest, RanksWithDifferentGraphsAreToldTheDifference) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    if (rank == 1) hvd->AllReduce(g, model.loss);
    ASSERT_TRUE(
        hvd->DistributedOptimizer(Momentum(0.1, 0.9)).get()->Minimize(g, model.loss, GlobalStep(g)).ok());
    const absl::Status status = MonitoredTrainingSession(g, {.target = server->target(),
                                                             .hooks = {hvd->BroadcastGlobalVariablesHook()}})
                                    .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the ranks' graphs differ: rank 0 (worker:0) has"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (worker:1) has key (1, 0): 'AllReduce', "));
    server->Shutdown(status);
  });
}

// Variables travel by their place. Two of one type and shape would change places without a word.
TEST_P(HorovodTest, RanksWithVariablesInAnotherOrderAreToldTheDifference) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    for (const char* name : {rank == 0 ? "a" : "b", rank == 0 ? "b" : "a"}) {
      MakeVariable(g, name, Tensor::Scalar(1.0f));
    }
    const absl::Status status = MonitoredTrainingSession(g, {.target = server->target(),
                                                             .hooks = {hvd->BroadcastGlobalVariablesHook()}})
                                    .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 0 (worker:0) has variable 'a', float[]; rank 1 (worker:1) has variable 'b'"));
    server->Shutdown(status);
  });
}

// Both ranks try the call again. The leader leaves out what it has done already, so the other rank must, too.
TEST_P(HorovodTest, AStepBeforeTheOneThatWasLostIsDoneOnceByAll) {
  MakeCluster(2);
  std::vector<std::vector<float>> weights(2);
  std::vector<int64_t> steps(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    Node* const train =
        hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, model.loss, GlobalStep(g)).value();
    const Output loss = hvd->AllReduce(g, model.loss);
    const auto session = MonitoredTrainingSession(
        g, {.target = server->target(), .hooks = {hvd->BroadcastGlobalVariablesHook()}});
    ASSERT_TRUE(session.ok()) << session.status();
    bool is_lost = false;
    for (int call = 0; call < 3; ++call) {
      const Feeds batch = BatchOf(model, rank, call);
      const absl::Status status = (*session)->RunStepFn([&](MonitoredSession::StepContext& context) {
        const absl::Status trained = context.RunWithHooks(batch, {}, {train}).status();
        if (!trained.ok()) return trained;
        if (rank == 1 && call == 1 && !std::exchange(is_lost, true)) {
          server->replicas()->ranks()->End(absl::AbortedError("a link is broken"));
        }
        return context.RunWithHooks(batch, {loss}).status();
      });
      ASSERT_TRUE(status.ok()) << status;
    }
    steps[rank] = (*session)->GlobalStep().value();
    weights[rank] = Values((*session)->session().Run({}, {model.weights.value}).value()[0]);
    const absl::Status closed = (*session)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    server->Shutdown();
  });
  EXPECT_THAT(steps, ElementsAre(3, 3));
  EXPECT_EQ(weights[0], weights[1]);
}

// Who sends is found among those that are there.
TEST_P(HorovodTest, ARankBroadcastsAfterALowerOneHasJoined) {
  MakeCluster(2);
  std::vector<int32_t> last(2, -1);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const Output sent = hvd->Broadcast(g, Const(g, 7.0f), 1);
    const Output join = hvd->Join(g);
    const auto session = MonitoredTrainingSession(
        g, {.target = server->target(), .hooks = {hvd->BroadcastGlobalVariablesHook()}});
    ASSERT_TRUE(session.ok()) << session.status();
    RunOptions options;
    options.timeout = absl::Seconds(60);
    if (rank == 1) {
      const auto values = (*session)->Run({}, {sent}, {}, options);
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ((*values)[0].scalar<float>(), 7);
    }
    const auto joined = (*session)->Run({}, {join}, {}, options);
    ASSERT_TRUE(joined.ok()) << joined.status();
    last[rank] = (*joined)[0].scalar<int32_t>();
    EXPECT_TRUE((*session)->Close().ok());
    server->Shutdown();
  });
  EXPECT_THAT(last, ElementsAre(1, 1));
}

// The counter needs nothing of other ranks, so the leader has counted before the step is lost.
TEST_P(HorovodTest, WhatAStepHasDoneBeforeItWasLostIsDoneOnceByAll) {
  MakeCluster(2);
  std::vector<float> counts(2);
  absl::Notification has_counted;
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    const ModelVariable counter = MakeVariable(g, "counter", Tensor::Scalar(0.0f));
    Node* const count = AssignAddVariableOp(g, counter.handle, Const(g, 1.0f));
    Node* const train =
        hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, model.loss, GlobalStep(g)).value();
    const auto session = MonitoredTrainingSession(
        g, {.target = server->target(), .hooks = {hvd->BroadcastGlobalVariablesHook()}});
    ASSERT_TRUE(session.ok()) << session.status();
    std::thread watch;
    if (rank == 0) {
      watch = std::thread([&, &raw = (*session)->session()] {
        while (raw.Run({}, {counter.value}).value()[0].scalar<float>() < 1)
          absl::SleepFor(absl::Milliseconds(1));
        has_counted.Notify();
      });
    } else {
      has_counted.WaitForNotification();
      server->replicas()->ranks()->End(absl::AbortedError("a link is broken"));
    }
    for (int step = 0; step < 2; ++step) {
      const absl::Status status = (*session)->Run(BatchOf(model, rank, step), {}, {train, count}).status();
      ASSERT_TRUE(status.ok()) << status;
      if (watch.joinable()) watch.join();
    }
    counts[rank] = (*session)->session().Run({}, {counter.value}).value()[0].scalar<float>();
    const absl::Status closed = (*session)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    server->Shutdown();
  });
  EXPECT_THAT(counts, ElementsAre(2, 2));
}

// Its variables are of no step. Those of the other rank, which are, count.
TEST_P(HorovodTest, ARankWithTornVariablesIsNotTheOneToCopyFrom) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const ModelVariable variable = MakeVariable(g, "v", Tensor::Scalar(static_cast<float>(rank)));
    GlobalStep(g);
    if (rank == 0) {
      Cancellation step;
      ASSERT_TRUE(server->replicas()->ranks()->BeginUpdates({"updates", {0, 0}, &step}).ok());
      step.Cancel(absl::DeadlineExceededError("too late"));
    }
    const auto session = MonitoredTrainingSession(
        g, {.target = server->target(), .hooks = {hvd->BroadcastGlobalVariablesHook()}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->session().Run({}, {variable.value}).value()[0].scalar<float>(), 1);
    EXPECT_FALSE(server->replicas()->ranks()->has_torn_updates());
    const absl::Status closed = (*session)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    server->Shutdown();
  });
}

// Of two ranks with gradients of known vectors, in two variables: each is a vector of its own.
TEST_P(HorovodTest, GradientsAreReducedAsTheOptionsSay) {
  const auto trained_with = [this](GradientReduction reduction, GradientCompression compression) {
    cluster_ = ClusterSpec();
    MakeCluster(2);
    std::vector<std::vector<float>> values(2);
    OnAllRanks(2, [&](int rank) {
      const auto server = Start(rank);
      const auto hvd = Horovod::Init(*server).value();
      GraphBuilder g(StandardOps());
      const ModelVariable a = MakeVariable(g, "a", Tensor::Vector<float>({0, 0}));
      const ModelVariable b = MakeVariable(g, "b", Tensor::Vector<float>({0, 0}));
      // The gradients of a are orthogonal, those of b parallel.
      const Output to_a = Const(g, rank == 0 ? Tensor::Vector<float>({1, 0}) : Tensor::Vector<float>({0, 2}));
      const Output to_b = Const(g, Tensor::Vector<float>({3, 4}));
      const Output loss = Add(g, ReduceSum(g, Mul(g, a.value, to_a)), ReduceSum(g, Mul(g, b.value, to_b)));
      const auto optimizer = hvd->DistributedOptimizer(GradientDescent(-1.0),
                                                       {.compression = compression, .reduction = reduction});
      Node* const train = optimizer->Minimize(g, loss, GlobalStep(g)).value();
      const auto session = MonitoredTrainingSession(
          g, {.target = server->target(),
              .hooks = {hvd->BroadcastGlobalVariablesHook(), StopAtStepHook({.last_step = 1})}});
      ASSERT_TRUE(session.ok()) << session.status();
      ASSERT_TRUE((*session)->Run({}, {}, {train}).ok());
      const std::vector<Tensor> trained = (*session)->session().Run({}, {a.value, b.value}).value();
      for (const Tensor& value : trained) {
        for (const float one : Values(value)) values[rank].push_back(one);
      }
      EXPECT_TRUE((*session)->Close().ok());
      server->Shutdown();
    });
    EXPECT_EQ(values[0], values[1]);
    return values[0];
  };
  for (const GradientCompression compression : {GradientCompression::kNone, GradientCompression::kHalf}) {
    EXPECT_THAT(trained_with(GradientReduction::kAverage, compression), ElementsAre(0.5f, 1, 3, 4));
    EXPECT_THAT(trained_with(GradientReduction::kSum, compression), ElementsAre(1, 2, 6, 8));
    EXPECT_THAT(trained_with(GradientReduction::kAdasum, compression), ElementsAre(1, 2, 3, 4));
  }
}

TEST_P(HorovodTest, AdasumIsNotForGradientsOfRows) {
  MakeCluster(2);
  std::barrier both_have_tried(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    const absl::Status status =
        hvd->DistributedOptimizer(Momentum(0.1, 0.9), {.reduction = GradientReduction::kAdasum})
            ->Minimize(g, model.loss, GlobalStep(g))
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("gradients of rows, as variable 'table' has"));
    // A rank that goes before the other one has its answer is waited for: it might be started again.
    both_have_tried.arrive_and_wait();
    server->Shutdown(status);
  });
}

TEST_P(HorovodTest, GradientsOfSeveralPassesMakeAStep) {
  for (const bool averages : {false, true}) {
    cluster_ = ClusterSpec();
    MakeCluster(2);
    OnAllRanks(2, [&](int rank) {
      const auto server = Start(rank);
      const auto hvd = Horovod::Init(*server).value();
      GraphBuilder g(StandardOps());
      const Output x = Placeholder(g, DType::kFloat32, Shape());
      const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
      const auto optimizer = hvd->DistributedOptimizer(
          GradientDescent(1), {.backward_passes_per_step = 3, .averages_backward_passes = averages});
      Node* const train = optimizer->Minimize(g, Mul(g, w.value, x), GlobalStep(g)).value();
      const auto session = MonitoredTrainingSession(g, {.target = server->target(),
                                                        .hooks = {hvd->BroadcastGlobalVariablesHook()},
                                                        .log_step_count_steps = 0})
                               .value();
      double expected = 0, sum = 0;
      for (int pass = 0; pass < 7; ++pass) {
        const auto fed = Tensor::Scalar(static_cast<float>(pass + 10 * rank));
        const absl::Status status = session->Run({{x, fed}}, {}, {train}).status();
        ASSERT_TRUE(status.ok()) << status;
        sum += pass + 5;  // the mean of both ranks
        if (pass % 3 == 2) expected -= std::exchange(sum, 0) / (averages ? 3 : 1);
        EXPECT_EQ(session->GlobalStep().value(), (pass + 1) / 3);
        EXPECT_NEAR(session->session().Run({}, {w.value}).value()[0].scalar<float>(), expected, 1e-5);
      }
      EXPECT_TRUE(session->Close().ok());
      server->Shutdown();
    });
  }
}

TEST_P(HorovodTest, PassesThatCannotBeAreRefused) {
  if (GetParam()) GTEST_SKIP() << "without a network";
  const auto server = Server::Start(TaskConfig()).value();
  const auto hvd = Horovod::Init(*server).value();
  const auto refusal = [&](int passes) {
    GraphBuilder g(StandardOps());
    const LinearModel model(g);
    return std::string(hvd->DistributedOptimizer(GradientDescent(1), {.backward_passes_per_step = passes})
                           ->Minimize(g, model.loss, GlobalStep(g))
                           .status()
                           .message());
  };
  EXPECT_THAT(refusal(0), HasSubstr("backward_passes_per_step must be at least 1, is 0"));
  EXPECT_THAT(refusal(2), HasSubstr("the gradient of the variable 'table' is of some of its rows"));
}

// They would call it lost when they hear of it no more. It waits for kFarewell only, which is not enough on
// every machine that is busy.
TEST_P(HorovodTest, TheFirstRankLeavesWhenTheOthersKnowThatItIsDone) {
  if (GetParam()) return;  // needs faults
  constexpr int kRanks = 3;
  constexpr int kMostAttempts = 10;
  faults_.Add({.action = Fault::Action::kDelay, .method = "Watch", .delay = absl::Milliseconds(300)});
  bool has_waited = false;
  for (int i = 0; i < kMostAttempts && !has_waited; ++i) {
    cluster_ = ClusterSpec();
    MakeCluster(kRanks);
    std::vector<std::unique_ptr<Server>> servers;
    for (int rank = 0; rank < kRanks; ++rank) servers.push_back(Start(rank));
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    const auto await = [&](int rank, int other, Membership::State state) {
      const Membership& membership = servers[rank]->membership();
      while (membership.state({"worker", other}) != state && absl::Now() < give_up) {
        absl::SleepFor(absl::Milliseconds(5));
      }
      return membership.state({"worker", other}) == state;
    };
    for (int rank = 1; rank < kRanks; ++rank) ASSERT_TRUE(await(0, rank, Membership::State::kAlive));
    const absl::Time begin = absl::Now();
    servers[0]->Shutdown();
    has_waited = absl::Now() - begin < Server::kFarewell;
    for (int rank = 1; rank < kRanks && has_waited; ++rank) {
      EXPECT_TRUE(await(rank, 0, Membership::State::kDone)) << rank;
    }
  }
  EXPECT_TRUE(has_waited) << "it never sees that the others know";
}

// Counts the questions that a listener's handler has taken.
class CountsQuestions final : public Transport {
 public:
  explicit CountsQuestions(Transport& wrapped) : wrapped_(wrapped) {}

  std::atomic<int> num_taken{0};

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    return wrapped_.Connect(peer, address);
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return wrapped_.Listen(
        address,
        [this, handler = std::move(handler)](std::shared_ptr<IncomingCall> call) {
          const bool is_question = absl::EndsWith(call->method(), "/Form");
          handler(std::move(call));
          num_taken += is_question ? 1 : 0;
        },
        std::move(placement));
  }

 private:
  Transport& wrapped_;
};

// One that was killed at the end and is started again while rank 0 leaves.
TEST_P(HorovodTest, ARankThatComesWhenAllIsDoneHasNothingToDo) {
  if (GetParam()) return;  // needs faults
  MakeCluster(2);
  CountsQuestions counts(faults_);
  transport_ = &counts;
  const auto late = Start(1);
  auto first = Start(0);
  Trained trained;
  std::thread asks([&] { trained = TrainRank(*late, 5, {}, -1, {.timeout = absl::Seconds(60)}); });
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (counts.num_taken == 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(counts.num_taken, 1) << "its question is held";
  first->Shutdown();
  asks.join();
  EXPECT_THAT(std::string(trained.status.message()), HasSubstr("rank 0 (worker:0) is done"));
  EXPECT_EQ(ExitCodeFor(trained.status), kExitDone) << trained.status;
}

TEST_P(HorovodTest, AProgramThatRunsAloneIsOneRank) {
  if (GetParam()) GTEST_SKIP() << "without a network";
  const auto server = Server::Start(TaskConfig()).value();
  const Trained one = TrainRank(*server, 5), other = TrainAlone(1, 5);
  ASSERT_TRUE(one.status.ok()) << one.status;
  EXPECT_EQ(one.weights, other.weights);
}

// The one that is missing is named by all, after the time that the program allows.
TEST_P(HorovodTest, ALostRankIsWaitedForAsLongAsTheProgramSays) {
  constexpr int kRanks = 3;
  MakeCluster(kRanks);
  std::vector<absl::Status> ends(kRanks);
  ::testing::internal::CaptureStderr();
  OnAllRanks(kRanks, [&](int rank) {
    const auto server = Start(rank);
    const Trained trained =
        TrainRank(*server, 1000, {}, /*leaves_at=*/rank == 1 ? 3 : -1, {.timeout = absl::Seconds(30)});
    ends[rank] = trained.status;
    server->Shutdown(trained.status);
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ContainsRegex("rank 0 \\(worker:0\\) has waited [1-2][0-9]s to form the group of 3 ranks "
                            "\\([0-9]+s? left\\), for rank 1 \\(worker:1\\)"));
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ExitCodeFor(ends[rank]), kExitRetryable) << ends[rank];
    EXPECT_THAT(std::string(ends[rank].message()), HasSubstr("rank 1 (worker:1)")) << rank;
  }
}

TEST_P(HorovodTest, RanksWithDifferentClusterSpecsSaySo) {
  MakeCluster(2);
  const auto first = Start(0);
  ASSERT_TRUE(cluster_.AddTask({"worker", 2}, "127.0.0.1:1").ok());
  const auto second = Start(1);
  const absl::Status status = Horovod::Init(*second).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 (worker:1) counts 3 ranks, rank 0 (worker:0) counts 2: the tasks were given "
                        "different cluster specs"));
  // It ends with that, and rank 0 waits for it.
  const absl::Status late = Horovod::Init(*first, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("for rank 1 (worker:1), which was refused: rank 1 (worker:1) counts 3 ranks"));
}

TEST_P(HorovodTest, RefusesWhatIsNoReplica) {
  if (GetParam()) GTEST_SKIP() << "without a network";
  MakeCluster(1);
  ASSERT_TRUE(cluster_.AddTask({"ps", 0}, "127.0.0.1:1").ok());
  const auto server = Start(0);
  const absl::Status status = Horovod::Init(*server).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameter servers"));
  server->Shutdown(absl::CancelledError("test"));
  // A rank that does not come is named.
  cluster_ = ClusterSpec();
  MakeCluster(2);
  const auto first = Start(0);
  const absl::Status late = Horovod::Init(*first, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("rank 1 (worker:1)"));
}

INSTANTIATE_TEST_SUITE_P(Transports, HorovodTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
