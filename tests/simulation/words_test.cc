// What a person reads who looks at a job that stands still: within ten seconds who is awaited, and for what,
// whenever the wait has begun.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/horovod.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/task_name.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/long_wait.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/simulation/sync_model.h"
#include "tests/simulation/world.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// A step of the others, with its messages.
constexpr absl::Duration kStep = absl::Milliseconds(500);

// Tasks that train until worker:1 (or the last rank) dawdles at a time of its own, for a minute.
class DawdlingJob {
 public:
  using Train = std::function<absl::Status(World::Life& life, Server& server, DawdlingJob& job)>;

  DawdlingJob(uint64_t seed, const std::vector<TaskName>& tasks, Train train)
      : world_(seed), train_(std::move(train)) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      cluster_.AddTask(tasks[i], absl::StrCat("127.0.0.1:", 5000 + i)).IgnoreError();
    }
    for (const TaskName& task : tasks) {
      world_.Start(task.ToString(), [this, task](World::Life& life) { Run(life, task); });
    }
  }
  ~DawdlingJob() { world_.End(); }

  // What is said from the beginning of the wait on, as long as silence may last.
  std::string WordsWhileItDawdles(absl::Duration dawdles_at) {
    dawdles_at_ = dawdles_at;
    EXPECT_TRUE(world_.RunUntil([this] { return dawdles_; }, absl::Minutes(5)));
    ::testing::internal::CaptureStderr();
    const absl::Duration end = world_.time() + kStep + LongWait::kSilence;
    world_.RunUntil([] { return false; }, end);
    return ::testing::internal::GetCapturedStderr();
  }

  // Of a task, before each step.
  void BeforeStep(World::Life& life, const TaskName& task) {
    life.Sleep(absl::Milliseconds(100));
    if (dawdles_ || task != TaskName{"worker", 1} || world_.time() < dawdles_at_) return;
    dawdles_ = true;
    life.Sleep(absl::Minutes(1));
  }

 private:
  void Run(World::Life& life, const TaskName& task) {
    ServerOptions options = life.server_options();
    options.lease = absl::Seconds(3);
    auto server = Server::Start(TaskConfig::Create(cluster_, task).value(), options);
    if (!server.ok()) return;
    if (task.job == "ps") return life.AwaitEndOfWorld();
    const absl::Status status = train_(life, **server, *this);
    (*server)->Shutdown(status);
  }

  World world_;
  const Train train_;
  ClusterSpec cluster_;
  absl::Duration dawdles_at_;
  bool dawdles_ = false;
};

absl::Status TrainUntilStop(World::Life& life, Server& server, DawdlingJob& job, GraphBuilder& g,
                            const HookPtr& hook, bool is_chief,
                            absl::FunctionRef<absl::Status(MonitoredSession&)> run_step) {
  TrainingSessionOptions options;
  options.target = server.target();
  options.is_chief = is_chief;
  options.hooks = {hook};
  options.stops_on_sigterm = false;
  options.log_step_count_steps = 0;
  WEIR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(g, std::move(options)));
  life.OnEndOfWorld([&session] { session->RequestStop(); });
  absl::Status status;
  while (status.ok() && !session->should_stop()) {
    job.BeforeStep(life, server.task().task());
    if (status.ok()) status = run_step(*session);
  }
  life.OnEndOfWorld(nullptr);
  return status;
}

absl::Status TrainSynchronously(World::Life& life, Server& server, DawdlingJob& job) {
  const TaskConfig& task = server.task();
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  WEIR_ASSIGN_OR_RETURN(const SyncModel model, SyncModel::Build(g, task, OnLoss::kWait));
  return TrainUntilStop(life, server, job, g, SyncReplicasHook(task.is_chief()), task.is_chief(),
                        [&](MonitoredSession& session) { return model.RunStep(session); });
}

absl::Status TrainRanks(World::Life& life, Server& server, DawdlingJob& job) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Horovod> hvd,
                        Horovod::Init(server, {.timeout = absl::Minutes(1)}));
  GraphBuilder g(StandardOps());
  const ModelVariable a = MakeVariable(g, "a", Tensor::Scalar(1.0f));
  WEIR_ASSIGN_OR_RETURN(
      Node* const train,
      hvd->DistributedOptimizer(GradientDescent(0.1))->Minimize(g, Square(g, a.value), GlobalStep(g)));
  return TrainUntilStop(life, server, job, g, hvd->BroadcastGlobalVariablesHook(), true,
                        [&](MonitoredSession& session) { return session.Run({}, {}, {train}).status(); });
}

TEST(WordsTest, AReplicaWhoseGradientsAreAwaitedIsNamed) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    DawdlingJob job(seed, {{"ps", 0}, {"ps", 1}, {"worker", 0}, {"worker", 1}, {"worker", 2}},
                    TrainSynchronously);
    EXPECT_THAT(job.WordsWhileItDawdles(absl::Seconds(8) + seed * absl::Milliseconds(1700)),
                HasSubstr("waits for the gradients of worker 1"))
        << "seed " << seed;
  }
}

TEST(WordsTest, ARankWhosePartOfACollectiveIsAwaitedIsNamed) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    DawdlingJob job(seed, {{"worker", 0}, {"worker", 1}, {"worker", 2}}, TrainRanks);
    EXPECT_THAT(job.WordsWhileItDawdles(absl::Seconds(8) + seed * absl::Milliseconds(1700)),
                HasSubstr("waits for rank 1 (worker:1) in '"))
        << "seed " << seed;
  }
}

// However rarely it looks at the step.
TEST(WordsTest, AGlobalStepThatDoesNotComeIsNamedAgainAndAgain) {
  World world(1);
  absl::Status ended;
  ClusterSpec cluster;
  ASSERT_TRUE(cluster.AddTask({"worker", 0}, "127.0.0.1:5000").ok());
  world.Start("worker:0", [&](World::Life& life) {
    auto server = Server::Start(TaskConfig::Create(cluster, {"worker", 0}).value(), life.server_options());
    ASSERT_TRUE(server.ok()) << server.status();
    GraphBuilder g(StandardOps());
    GlobalStep(g);
    TrainingSessionOptions options;
    options.target = (*server)->target();
    options.hooks = {GlobalStepWaiterHook(
        {.wait_until_step = 3, .poll_interval = absl::Hours(1), .max_wait = absl::Seconds(25)})};
    options.stops_on_sigterm = false;
    options.log_step_count_steps = 0;
    auto session = MonitoredTrainingSession(g, std::move(options));
    ASSERT_TRUE(session.ok()) << session.status();
    ended = (*session)->Run({}, {}, {}).status();
    (*server)->Shutdown(ended);
  });
  ::testing::internal::CaptureStderr();
  world.RunUntil([&] { return !ended.ok(); }, absl::Minutes(5));
  const std::string words = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
  EXPECT_THAT(words, HasSubstr("waiting for global step 3, it is 0\n"));
  EXPECT_THAT(words, HasSubstr("waiting for global step 3, it is 0 (for 10s, 15s left)\n"));
  EXPECT_THAT(words, HasSubstr("waiting for global step 3, it is 0 (for 20s, 5s left)\n"));
}

}  // namespace
}  // namespace weir
