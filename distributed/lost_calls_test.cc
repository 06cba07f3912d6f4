// What becomes of a call of Run or RunStepFn when replicas lose one another in the middle of it: all try it
// again, or those that are behind leave it out; what it updates is updated once.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/horovod.h"
#include "distributed/test_replicas.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hook.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using Context = MonitoredSession::StepContext;

// Whoever waits in vain is to fail, not to hang.
RunOptions Limited() {
  RunOptions options;
  options.timeout = absl::Seconds(60);
  return options;
}

// One rank of a model whose weight is pulled towards what the batches say.
struct Replica {
  Replica(int rank, std::unique_ptr<Server> its_server)
      : rank(rank), server(std::move(its_server)), hvd(Horovod::Init(*server).value()) {
    x = Placeholder(g, DType::kFloat32, Shape());
    weight = MakeVariable(g, "weight", Tensor::Scalar(0.0f));
    loss = Square(g, Sub(g, weight.value, x));
  }

  void Minimize() {
    train = hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, loss, GlobalStep(g)).value();
  }
  // Counts, when it is run, without the other rank.
  Node* AddCounter() {
    counter = MakeVariable(g, "counter", Tensor::Scalar(0.0f));
    return AssignAddVariableOp(g, counter.handle, Const(g, 1.0f));
  }
  // Without one before: the model counts its steps.
  void Start(std::vector<HookPtr> hooks = {}, const std::string& checkpoint_dir = "") {
    if (train == nullptr) Minimize();
    hooks.insert(hooks.begin(), hvd->BroadcastGlobalVariablesHook());
    auto started = MonitoredTrainingSession(g, {.target = server->target(),
                                                .checkpoint_dir = checkpoint_dir,
                                                .hooks = std::move(hooks),
                                                .log_step_count_steps = 0,
                                                .step_grace_period = absl::Seconds(60)});
    ASSERT_TRUE(started.ok()) << started.status();
    session = *std::move(started);
  }

  Feeds Batch(int call) const { return {{x, Tensor::Scalar(static_cast<float>(3 * call + rank))}}; }
  absl::Status Run(int call, const std::vector<TargetRef>& targets,
                   const std::vector<TensorRef>& fetches = {}) {
    return session->Run(Batch(call), fetches, targets, Limited()).status();
  }
  absl::Status Train(int call) { return Run(call, {train}); }
  absl::Status Train(Context& context, int call, const std::vector<TensorRef>& fetches = {}) const {
    return context.RunWithHooks(Batch(call), fetches, {train}, Limited()).status();
  }
  // A call that has trained, and then learns that a peer was lost; for the others it is done by then.
  absl::Status TrainAndLose(int call, const absl::Notification& others_have_done_it) {
    bool is_lost = false;
    return session->RunStepFn([&](Context& context) -> absl::Status {
      WEIR_RETURN_IF_ERROR(Train(context, call));
      others_have_done_it.WaitForNotification();
      return std::exchange(is_lost, true) ? absl::OkStatus() : absl::AbortedError("a peer was lost");
    });
  }

  RankGroup& ranks() const { return *server->replicas()->ranks(); }
  void BreakLinks() const { ranks().End(absl::AbortedError("a link is broken")); }
  float Value(const ModelVariable& variable) const {
    return session->session().Run({}, {variable.value}).value()[0].scalar<float>();
  }

  const int rank;
  const std::unique_ptr<Server> server;
  const std::unique_ptr<Horovod> hvd;
  GraphBuilder g{StandardOps()};
  Output x, loss;
  ModelVariable weight, counter;
  Node* train = nullptr;
  std::unique_ptr<MonitoredSession> session;
};

// What a rank asks for after Note, as another one sees it.
class NextCollective {
 public:
  void Note(const Replica& replica) {
    group_ = &replica.ranks();
    num_before_ = group_->progress().num_collectives;
    is_noted_.Notify();
  }
  void Await() const {
    is_noted_.WaitForNotification();
    while (group_->progress().num_collectives == num_before_) absl::SleepFor(absl::Milliseconds(1));
  }

 private:
  const RankGroup* group_ = nullptr;
  int64_t num_before_ = 0;
  absl::Notification is_noted_;
};

class LostCallsTest : public HorovodTest {
 protected:
  // Runs `body` on two ranks, which end well.
  void OnBoth(const std::function<void(Replica&)>& body) {
    cluster_ = ClusterSpec();
    MakeCluster(2);
    steps_.assign(2, -1);
    weights_.assign(2, 0);
    OnAllRanks(2, [&](int rank) {
      Replica replica(rank, HorovodTest::Start(rank));
      body(replica);
      End(replica);
    });
  }
  // And have the same variables then.
  void OnBothAlike(const std::function<void(Replica&)>& body) {
    OnBoth(body);
    EXPECT_EQ(steps_[0], steps_[1]);
    EXPECT_EQ(weights_[0], weights_[1]);
  }
  void CountOnceAfterAnOwnCall(const HookPtr& hook_of_first);
  void End(Replica& replica) {
    ASSERT_NE(replica.session, nullptr);
    steps_[replica.rank] = replica.session->GlobalStep().value();
    weights_[replica.rank] = replica.Value(replica.weight);
    const absl::Status closed = replica.session->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    replica.server->Shutdown(closed);
  }

  std::vector<int64_t> steps_;
  std::vector<float> weights_;
};

// One rank has done the training in the call's only step, the other one in the first of two: neither call has
// ended, so both are tried again, whole.
TEST_P(LostCallsTest, ACallThatNobodyHasDoneIsTriedAgainByAll) {
  absl::Notification is_lost;
  OnBothAlike([&](Replica& replica) {
    const Output metric = replica.hvd->AllReduce(replica.g, replica.loss);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    const Output global_step = replica.session->scaffold().global_step;
    std::thread watch;
    if (replica.rank == 0) {
      watch = std::thread([&, &raw = replica.session->session()] {
        while (raw.Run({}, {global_step}).value()[0].scalar<int64_t>() < 1) {
          absl::SleepFor(absl::Milliseconds(1));
        }
        replica.BreakLinks();
        is_lost.Notify();
      });
    }
    for (int call = 0; call < 2; ++call) {
      const absl::Status status = replica.session->RunStepFn([&](Context& context) -> absl::Status {
        if (replica.rank == 0) return replica.Train(context, call, {metric});
        WEIR_RETURN_IF_ERROR(replica.Train(context, call));
        is_lost.WaitForNotification();
        return context.RunWithHooks(replica.Batch(call), {metric}, {}, Limited()).status();
      });
      EXPECT_TRUE(status.ok()) << status;
      if (watch.joinable()) watch.join();
    }
  });
  EXPECT_EQ(steps_[0], 2);
}

// For rank 0 the call of two steps is over.
TEST_P(LostCallsTest, ACallThatOthersHaveDoneIsLeftOutWithAllItsSteps) {
  std::vector<int> attempts(2);
  absl::Notification is_done;
  OnBothAlike([&](Replica& replica) {
    const Output metric = replica.hvd->AllReduce(replica.g, replica.loss);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    for (int call = 0; call < 3; ++call) {
      const absl::Status status = replica.session->RunStepFn([&](Context& context) -> absl::Status {
        const int attempt = ++attempts[replica.rank];
        WEIR_RETURN_IF_ERROR(replica.Train(context, call));
        WEIR_RETURN_IF_ERROR(replica.Train(context, call, {metric}));
        if (replica.rank == 0 || attempt != 2) return absl::OkStatus();
        is_done.WaitForNotification();
        return absl::AbortedError("a peer was lost");
      });
      EXPECT_TRUE(status.ok()) << status;
      if (replica.rank == 0 && call == 1) is_done.Notify();
    }
  });
  EXPECT_EQ(steps_[0], 6);
  EXPECT_THAT(attempts, testing::ElementsAre(4, 4));
}

// It is not behind: the others have trained without it.
TEST_P(LostCallsTest, ARankThatHasJoinedWaitsAgain) {
  OnBothAlike([&](Replica& replica) {
    const Output join = replica.hvd->Join(replica.g);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    const auto run = [&](const std::vector<TargetRef>& targets, const std::vector<TensorRef>& fetches = {}) {
      const absl::Status status = replica.Run(1, targets, fetches);
      EXPECT_TRUE(status.ok()) << status;
    };
    // After the Join, too, when the ranks have done different numbers of calls.
    for (int round = 0; round < 2; ++round) {
      run({replica.train});
      for (int i = 0; replica.rank == 0 && i < 4; ++i) {
        if (i == 2) replica.BreakLinks();
        run({replica.train});
      }
      run({}, {join});
    }
    // The new group takes over what rank 0 has trained alone.
    if (replica.rank == 1) replica.BreakLinks();
    run({replica.train});
    run({}, {join});
    // Both are there, and maybe one is in its next call already.
    replica.BreakLinks();
    run({replica.train});
  });
  EXPECT_EQ(steps_[0], 12);
}

// The program of rank 1 has no more batches, and joins.
TEST_P(LostCallsTest, TheEndOfTheInputEndsACallThatIsLeftOut) {
  absl::Notification is_done;
  OnBoth([&](Replica& replica) {
    const Output join = replica.hvd->Join(replica.g);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    if (replica.rank == 0) {
      for (int call = 0; call < 3; ++call) {
        EXPECT_TRUE(replica.Train(call).ok());
        if (call == 0) is_done.Notify();
      }
    } else {
      int attempt = 0;
      const absl::Status end = replica.session->RunStepFn([&](Context& context) -> absl::Status {
        if (++attempt == 2) return absl::OutOfRangeError("no more batches");
        WEIR_RETURN_IF_ERROR(replica.Train(context, 0));
        is_done.WaitForNotification();
        return absl::AbortedError("a peer was lost");
      });
      EXPECT_TRUE(absl::IsOutOfRange(end)) << end;
    }
    const absl::Status joined = replica.Run(0, {}, {join});
    EXPECT_TRUE(joined.ok()) << joined;
  });
  EXPECT_EQ(steps_[0], 3);
}

// Rank 0 waits in Join while rank 1 trains, and nobody counts: the newest variables are those of rank 1.
TEST_P(LostCallsTest, ARankThatHasJoinedHasNotTheNewestVariables) {
  OnBoth([&](Replica& replica) {
    replica.train = replica.hvd->DistributedOptimizer(GradientDescent(0.5))
                        ->Minimize(replica.g, Mul(replica.g, replica.weight.value, replica.x))
                        .value();
    const Output join = replica.hvd->Join(replica.g);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    const Feeds batch = {{replica.x, Tensor::Scalar(-2.0f)}};
    const int num_calls = replica.rank == 0 ? 1 : 5;
    for (int call = 0; call < num_calls; ++call) {
      if (call == 3) replica.BreakLinks();
      const absl::Status status = replica.session->Run(batch, {}, {replica.train}, Limited()).status();
      EXPECT_TRUE(status.ok()) << status;
    }
    const absl::Status joined = replica.Run(0, {}, {join});
    EXPECT_TRUE(joined.ok()) << joined;
  });
  EXPECT_EQ(weights_[1], 3) << "one call of both, and four halves";
}

// All say that they have done no step. The one that has just started has not.
TEST_P(LostCallsTest, WhereNobodyCountsStepsThoseThatWereThereHaveTheVariables) {
  MakeCluster(2);
  std::vector<float> weights(2);
  absl::Notification other_has_done_three;
  OnAllRanks(2, [&](int rank) {
    const auto run = [&](int num_calls, bool is_lost) {
      Replica replica(rank, Start(rank));
      replica.train = replica.hvd->DistributedOptimizer(GradientDescent(0.5))
                          ->Minimize(replica.g, Mul(replica.g, replica.weight.value, replica.x))
                          .value();
      ASSERT_NO_FATAL_FAILURE(replica.Start());
      const Feeds batch = {{replica.x, Tensor::Scalar(-2.0f)}};
      for (int call = 0; call < num_calls; ++call) {
        const absl::Status status = replica.session->Run(batch, {}, {replica.train}, Limited()).status();
        EXPECT_TRUE(status.ok()) << status;
        if (rank == 1 && call == 2) other_has_done_three.Notify();
      }
      weights[rank] = replica.Value(replica.weight);
      if (is_lost) other_has_done_three.WaitForNotification();
      if (is_lost) return replica.server->Shutdown(absl::UnavailableError("crashed"));
      const absl::Status closed = replica.session->Close();
      EXPECT_TRUE(closed.ok()) << closed;
      replica.server->Shutdown();
    };
    if (rank == 0) run(3, /*is_lost=*/true);
    run(rank == 0 ? 2 : 5, /*is_lost=*/false);
  });
  EXPECT_THAT(weights, testing::ElementsAre(5, 5));
}

struct CountingHook final : Hook {
  explicit CountingHook(Node* count) : count(count) {}
  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return RunArgs{.targets = {count}}; }
  Node* const count;
};

TEST_P(LostCallsTest, WhatHooksUpdateIsLeftOutToo) {
  std::vector<float> counts(2);
  absl::Notification is_done;
  OnBothAlike([&](Replica& replica) {
    Node* const count = replica.AddCounter();
    ASSERT_NO_FATAL_FAILURE(replica.Start({std::make_shared<CountingHook>(count)}));
    for (int call = 0; call < 3; ++call) {
      const absl::Status status =
          replica.rank == 1 && call == 1 ? replica.TrainAndLose(call, is_done) : replica.Train(call);
      EXPECT_TRUE(status.ok()) << status;
      if (replica.rank == 0 && call == 1) is_done.Notify();
    }
    counts[replica.rank] = replica.Value(replica.counter);
  });
  EXPECT_EQ(steps_[0], 3);
  EXPECT_THAT(counts, testing::ElementsAre(3, 3));
}

struct FetchingHook final : Hook {
  explicit FetchingHook(const Output& fetch) : fetch(fetch) {}
  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return RunArgs{.fetches = {fetch}}; }
  const Output fetch;
};

// Else it would update its variables alone: a hook's fetch needs the training, the program trains in a step
// without hooks, or a fetch counts. Started again it begins with the call that the other rank is in.
TEST_P(LostCallsTest, ARankThatCannotLeaveOutItsCallIsStartedAgain) {
  for (const absl::string_view way : {"a hook", "a step without hooks", "a fetch"}) {
    absl::Notification is_done;
    cluster_ = ClusterSpec();
    MakeCluster(2);
    steps_.assign(2, -1);
    weights_.assign(2, 0);
    OnAllRanks(2, [&](int rank) {
      Output counted;
      const auto start = [&] {
        auto replica = std::make_unique<Replica>(rank, HorovodTest::Start(rank));
        GraphBuilder& g = replica->g;
        replica->Minimize();
        Node* const count = replica->AddCounter();
        const auto loss_after = [&](Node* node) {
          const GraphBuilder::Scope after = g.ControlScope({node});
          return Identity(g, replica->loss);
        };
        counted = loss_after(count);
        std::vector<HookPtr> hooks;
        if (way == "a hook") hooks.push_back(std::make_shared<FetchingHook>(loss_after(replica->train)));
        replica->Start(std::move(hooks));
        return replica;
      };
      std::unique_ptr<Replica> replica = start();
      if (rank == 1) {
        bool is_lost = false;
        const absl::Status status = replica->session->RunStepFn([&](Context& context) -> absl::Status {
          if (is_lost && way == "a step without hooks") {
            return context.session().Run(replica->Batch(0), {}, {replica->train}).status();
          }
          std::vector<TensorRef> fetches;
          if (way == "a fetch") fetches.push_back(counted);
          WEIR_RETURN_IF_ERROR(replica->Train(context, 0, fetches));
          is_done.WaitForNotification();
          is_lost = true;
          return absl::AbortedError("a peer was lost");
        });
        EXPECT_EQ(ExitCodeFor(status), kExitRetryable) << way << ": " << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("this process must be started again")) << way;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(way == "a step without hooks" ? "the others have done this step already"
                                                            : "a fetch depends on it"));
        replica->server->Shutdown(status);
        replica = nullptr;
        replica = start();
      } else {
        EXPECT_TRUE(replica->Train(0).ok());
        is_done.Notify();
      }
      for (int call = 1; call < 3; ++call) {
        const absl::Status status = replica->Train(call);
        EXPECT_TRUE(status.ok()) << status;
      }
      End(*replica);
    });
    EXPECT_THAT(steps_, testing::ElementsAre(3, 3)) << way;
    EXPECT_EQ(weights_[0], weights_[1]) << way;
  }
}

// Averages the weight after each step; one rank's link is broken before.
struct AveragingHook final : Hook {
  AveragingHook(const Output& average, std::function<void()> before)
      : average(average), before(std::move(before)) {}
  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (before != nullptr) std::exchange(before, nullptr)();
    return context.session().Run({}, {average}, {}, Limited()).status();
  }
  const Output average;
  std::function<void()> before;
};

// The call of rank 0 has begun the hook's collective, that of rank 1 was refused it: both have done the call.
TEST_P(LostCallsTest, ACallWhoseHookHasLostTheOthersIsDone) {
  std::vector<float> counts(2);
  NextCollective of_first;
  OnBothAlike([&](Replica& replica) {
    Node* const count = replica.AddCounter();
    const Output average = replica.hvd->AllReduce(replica.g, replica.counter.value);
    std::function<void()> before;
    if (replica.rank == 1) {
      before = [&] {
        of_first.Await();
        replica.BreakLinks();
      };
    }
    ASSERT_NO_FATAL_FAILURE(replica.Start({std::make_shared<AveragingHook>(average, std::move(before))}));
    if (replica.rank == 0) of_first.Note(replica);
    for (int call = 0; call < 3; ++call) {
      const absl::Status status = replica.Run(call, {count});
      EXPECT_TRUE(status.ok()) << status;
    }
    counts[replica.rank] = replica.Value(replica.counter);
  });
  EXPECT_THAT(counts, testing::ElementsAre(3, 3));
}

// Loses its peers after a step, once.
struct LosingHook final : Hook {
  explicit LosingHook(std::function<void()> before) : before(std::move(before)) {}
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    if (before == nullptr) return absl::OkStatus();
    std::exchange(before, nullptr)();
    return absl::AbortedError("a peer was lost");
  }
  std::function<void()> before;
};

// Rank 1 has not come to the averaging, but its step is done, and it is in no call.
TEST_P(LostCallsTest, ARankBetweenItsCallsIsNotBehind) {
  std::vector<float> counts(2);
  NextCollective of_first;
  OnBothAlike([&](Replica& replica) {
    Node* const count = replica.AddCounter();
    const Output average = replica.hvd->AllReduce(replica.g, replica.counter.value);
    std::function<void()> before;
    if (replica.rank == 1) {
      before = [&] { of_first.Await(); };
    }
    ASSERT_NO_FATAL_FAILURE(
        replica.Start({std::make_shared<LosingHook>(std::move(before)),
                       std::make_shared<AveragingHook>(average, std::function<void()>())}));
    if (replica.rank == 0) of_first.Note(replica);
    for (int call = 0; call < 3; ++call) {
      const absl::Status status = replica.Run(call, {count});
      EXPECT_TRUE(status.ok()) << status;
    }
    counts[replica.rank] = replica.Value(replica.counter);
  });
  EXPECT_THAT(counts, testing::ElementsAre(3, 3));
}

// Rank 1 comes to a collective before it sees that there is no more input, rank 0 does not.
TEST_P(LostCallsTest, TheEndOfTheInputIsNoCallThatOthersHaveDone) {
  std::vector<float> means(2);
  absl::Notification has_trained, is_given_up;
  OnBothAlike([&](Replica& replica) {
    const Output metric = replica.hvd->AllReduce(replica.g, replica.loss);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    EXPECT_TRUE(replica.Train(0).ok());
    if (replica.rank == 0) has_trained.Notify();
    has_trained.WaitForNotification();
    const absl::Status end = replica.session->RunStepFn([&](Context& context) -> absl::Status {
      if (replica.rank == 1) {
        const int64_t num_before = replica.ranks().progress().num_collectives;
        std::thread watch([&] {
          while (replica.ranks().progress().num_collectives == num_before) {
            absl::SleepFor(absl::Milliseconds(1));
          }
          replica.BreakLinks();
        });
        context.RunWithHooks(replica.Batch(1), {metric}, {}, Limited()).IgnoreError();
        watch.join();
        is_given_up.Notify();
      }
      return absl::OutOfRangeError("no more batches");
    });
    EXPECT_TRUE(absl::IsOutOfRange(end)) << end;
    is_given_up.WaitForNotification();
    // Until the end has come here, too: what the other one had sent would still be taken for this call's.
    while (replica.ranks().status().ok()) absl::SleepFor(absl::Milliseconds(1));
    const auto mean = replica.session->Run(replica.Batch(2), {metric}, {}, Limited());
    ASSERT_TRUE(mean.ok()) << mean.status();
    means[replica.rank] = (*mean)[0].scalar<float>();
  });
  EXPECT_EQ(means[0], means[1]);
}

// Rank 0 has died after a call, when it had saved and before rank 1 had its last parts.
TEST_P(LostCallsTest, ACallThatARestoredCheckpointHasIsLeftOut) {
  const std::string saved = absl::StrCat(testing::TempDir(), "/", GetParam() ? "grpc" : "inproc");
  {
    Replica alone(0, Server::Start(TaskConfig()).value());
    ASSERT_NO_FATAL_FAILURE(alone.Start({}, saved));
    for (int call = 0; call < 2; ++call) EXPECT_TRUE(alone.Train(call).ok());
    EXPECT_TRUE(alone.session->Close().ok());
  }
  MakeCluster(2);
  steps_.assign(2, -1);
  weights_.assign(2, 0);
  absl::Notification is_done;
  OnAllRanks(2, [&](int rank) {
    if (rank == 0) {
      Replica replica(rank, HorovodTest::Start(rank));
      ASSERT_NO_FATAL_FAILURE(replica.Start());
      EXPECT_TRUE(replica.Train(0).ok());
      is_done.WaitForNotification();
      replica.server->Shutdown(absl::UnavailableError("crashed"));
    }
    Replica replica(rank, HorovodTest::Start(rank));
    ASSERT_NO_FATAL_FAILURE(replica.Start({}, rank == 0 ? saved : ""));
    if (rank == 1) {
      EXPECT_TRUE(replica.Train(0).ok());
      is_done.Notify();
      const absl::Status status = replica.Train(1);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(replica.session->GlobalStep().value(), 2);
    }
    const absl::Status status = replica.Train(2);
    EXPECT_TRUE(status.ok()) << status;
    End(replica);
  });
  EXPECT_THAT(steps_, testing::ElementsAre(3, 3));
  EXPECT_EQ(weights_[0], weights_[1]);
}

// Rank 0 has trained on while rank 1 was out of data, has saved and died. What the checkpoint has is no part
// of the Join of rank 1, which begins it again.
TEST_P(LostCallsTest, AJoinThatARestoredCheckpointIsAheadOfIsBegunAgain) {
  const std::string saved = absl::StrCat(testing::TempDir(), "/join_", GetParam() ? "grpc" : "inproc");
  {
    Replica alone(0, Server::Start(TaskConfig()).value());
    ASSERT_NO_FATAL_FAILURE(alone.Start({}, saved));
    for (int call = 0; call < 3; ++call) EXPECT_TRUE(alone.Train(call).ok());
    EXPECT_TRUE(alone.session->Close().ok());
  }
  MakeCluster(2);
  steps_.assign(2, -1);
  weights_.assign(2, 0);
  NextCollective join_of_other;
  OnAllRanks(2, [&](int rank) {
    if (rank == 0) {
      Replica replica(rank, HorovodTest::Start(rank));
      replica.hvd->Join(replica.g);
      ASSERT_NO_FATAL_FAILURE(replica.Start());
      EXPECT_TRUE(replica.Train(0).ok());
      join_of_other.Await();
      replica.server->Shutdown(absl::UnavailableError("crashed"));
    }
    Replica replica(rank, HorovodTest::Start(rank));
    const Output join = replica.hvd->Join(replica.g);
    ASSERT_NO_FATAL_FAILURE(replica.Start({}, rank == 0 ? saved : ""));
    const absl::Status status = replica.Train(rank == 0 ? 3 : 0);
    EXPECT_TRUE(status.ok()) << status;
    if (rank == 1) join_of_other.Note(replica);
    const absl::Status joined = replica.Run(0, {}, {join});
    EXPECT_TRUE(joined.ok()) << joined;
    End(replica);
  });
  EXPECT_EQ(steps_[0], 4);
}

// They are no part of a call, and rank 0's own calls count as little.
TEST_P(LostCallsTest, CollectivesBetweenCallsDoNotCount) {
  NextCollective of_first;
  OnBothAlike([&](Replica& replica) {
    const Output metric = replica.hvd->AllReduce(replica.g, replica.loss);
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    for (int call = 0; call < 4; ++call) {
      if (call == 2 && replica.rank == 0) {
        of_first.Note(replica);
      } else if (call == 2) {
        of_first.Await();
        replica.BreakLinks();
      }
      const absl::Status status = replica.Train(call);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(replica.session->session().Run(replica.Batch(call), {metric}, {}, Limited()).ok());
      if (replica.rank == 0) {
        EXPECT_TRUE(replica.Run(call, {}, {replica.loss}).ok());
      }
    }
  });
  EXPECT_EQ(steps_[0], 4);
}

// The session that has taken over the variables is lost before the call is left out.
struct UnluckyHook final : Hook {
  explicit UnluckyHook(std::function<void()> at_loss) : at_loss(std::move(at_loss)) {}
  absl::Status AfterCreateSession(Session&, Coordinator&) override {
    if (++num_sessions != 2 || at_loss == nullptr) return absl::OkStatus();
    at_loss();
    return absl::AbortedError("a peer was lost");
  }
  const std::function<void()> at_loss;
  int num_sessions = 0;
};

// What rank 1 has counted in its next call is known to rank 0, which has a call of its own before that.
void LostCallsTest::CountOnceAfterAnOwnCall(const HookPtr& hook_of_first) {
  std::vector<float> counts(2);
  absl::Notification has_counted;  // in the call after the one that rank 0 has trained in
  OnBothAlike([&](Replica& replica) {
    Node* const count = replica.AddCounter();
    std::vector<HookPtr> hooks;
    if (replica.rank == 0) hooks.push_back(hook_of_first);
    ASSERT_NO_FATAL_FAILURE(replica.Start(std::move(hooks)));
    std::thread watch;
    if (replica.rank == 0) {
      bool is_lost = false;
      const absl::Status status = replica.session->RunStepFn([&](Context& context) -> absl::Status {
        WEIR_RETURN_IF_ERROR(replica.Train(context, 0));
        if (std::exchange(is_lost, true)) return absl::OkStatus();
        has_counted.WaitForNotification();
        return absl::AbortedError("a peer was lost");
      });
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(replica.Run(0, {}, {replica.counter.value}).ok());
    } else {
      EXPECT_TRUE(replica.Train(0).ok());
      watch = std::thread([&, &raw = replica.session->session()] {
        while (raw.Run({}, {replica.counter.value}).value()[0].scalar<float>() < 1) {
          absl::SleepFor(absl::Milliseconds(1));
        }
        has_counted.Notify();
      });
    }
    const absl::Status status = replica.Run(1, {replica.train, count});
    EXPECT_TRUE(status.ok()) << status;
    if (watch.joinable()) watch.join();
    counts[replica.rank] = replica.Value(replica.counter);
  });
  EXPECT_EQ(steps_[0], 2);
  EXPECT_THAT(counts, testing::ElementsAre(1, 1));
}

TEST_P(LostCallsTest, WhatTheOthersHaveUpdatedIsKnownAfterACallOfOnesOwn) {
  CountOnceAfterAnOwnCall(std::make_shared<Hook>());
}

// Then rank 0 is as far as rank 1, and leads.
TEST_P(LostCallsTest, WhatTheOthersHaveUpdatedIsKnownAfterAnotherLoss) {
  CountOnceAfterAnOwnCall(std::make_shared<UnluckyHook>([] {}));
}

// The Join of an earlier session of the process is no part of this one's calls.
TEST_P(LostCallsTest, ASecondSessionBeginsAnew) {
  absl::Notification is_done;
  OnBothAlike([&](Replica& replica) {
    {
      GraphBuilder g(StandardOps());
      const Output join = replica.hvd->Join(g);
      const auto session =
          MonitoredTrainingSession(g, {.target = replica.server->target(),
                                       .hooks = {replica.hvd->BroadcastGlobalVariablesHook()},
                                       .log_step_count_steps = 0});
      ASSERT_TRUE(session.ok()) << session.status();
      EXPECT_TRUE((*session)->Run({}, {join}, {}, Limited()).ok());
    }
    ASSERT_NO_FATAL_FAILURE(replica.Start());
    for (int call = 0; call < 3; ++call) {
      const absl::Status status =
          replica.rank == 1 && call == 0 ? replica.TrainAndLose(call, is_done) : replica.Train(call);
      EXPECT_TRUE(status.ok()) << status;
      if (replica.rank == 0 && call == 0) is_done.Notify();
    }
  });
  EXPECT_EQ(steps_[0], 3);
}

// Rank 1 alone remains of those that have the update of the call it leaves out.
TEST_P(LostCallsTest, ARankThatIsBehindRemembersItWhenTheOthersAreGone) {
  MakeCluster(2);
  steps_.assign(2, -1);
  weights_.assign(2, 0);
  absl::Notification is_done, has_taken_over, is_gone;
  OnAllRanks(2, [&](int rank) {
    if (rank == 0) {
      {
        Replica replica(rank, HorovodTest::Start(rank));
        ASSERT_NO_FATAL_FAILURE(replica.Start());
        EXPECT_TRUE(replica.Train(0).ok());
        is_done.Notify();
        int attempt = 0;
        const absl::Status lost = replica.session->RunStepFn([&](Context& context) -> absl::Status {
          if (++attempt == 1) return replica.Train(context, 1);
          has_taken_over.WaitForNotification();
          return absl::InternalError("crashed");
        });
        EXPECT_TRUE(absl::IsInternal(lost)) << lost;
        replica.server->Shutdown(absl::UnavailableError("crashed"));
      }
      is_gone.Notify();
    }
    Replica replica(rank, HorovodTest::Start(rank));
    const auto unlucky = std::make_shared<UnluckyHook>(rank == 0 ? nullptr : std::function<void()>([&] {
      has_taken_over.Notify();
      is_gone.WaitForNotification();
    }));
    ASSERT_NO_FATAL_FAILURE(replica.Start({unlucky}));
    if (rank == 1) {
      const absl::Status status = replica.TrainAndLose(0, is_done);
      EXPECT_TRUE(status.ok()) << status;
    }
    for (int call = 1; call < 3; ++call) {
      const absl::Status status = replica.Train(call);
      EXPECT_TRUE(status.ok()) << status;
    }
    End(replica);
  });
  EXPECT_THAT(steps_, testing::ElementsAre(3, 3));
  EXPECT_EQ(weights_[0], weights_[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, LostCallsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
