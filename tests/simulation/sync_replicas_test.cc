// Synchronous replicas in simulated clusters: two ps, a chief and two workers, whose batches follow from the
// global step (sync_model.h). Whatever order a seed chooses, and whenever a worker is killed and started
// again, the job comes to its end, and with the same bits.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/task_name.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/simulation/sync_model.h"
#include "tests/simulation/world.h"

namespace weir {
namespace {

constexpr int64_t kLastStep = 15;

class SyncJob {
 public:
  explicit SyncJob(uint64_t seed) : world_(seed) {
    tasks_ = {{"ps", 0}, {"ps", 1}, {"chief", 0}, {"worker", 0}, {"worker", 1}};
    for (size_t i = 0; i < tasks_.size(); ++i) {
      cluster_.AddTask(tasks_[i], absl::StrCat("127.0.0.1:", 5000 + i)).IgnoreError();
    }
    for (const TaskName& task : tasks_) Start(task);
  }
  ~SyncJob() { world_.End(); }

  // Kills the worker at that time and starts it again two seconds later.
  void KillAndRestart(const TaskName& worker, absl::Duration at) {
    world_.At(at, [this, worker] { world_.Kill(*lives_.at(worker)); });
    world_.At(at + absl::Seconds(2), [this, worker] {
      world_.network().TakeAddresses(lives_.at(worker)->process());
      Start(worker);
    });
  }
  // The variables' bits when the chief has ended; an error's text when it has failed, or does not end.
  std::string Run() {
    world_.RunUntil([this] { return !outcome_.empty(); }, absl::Minutes(5));
    return outcome_.empty() ? "the chief did not end" : outcome_;
  }

 private:
  void Start(const TaskName& task) {
    ++num_lives_;
    lives_[task] =
        &world_.Start(absl::StrCat(task.ToString(), " life ", num_lives_), [this, task](World::Life& life) {
          ServerOptions options = life.server_options();
          options.lease = absl::Seconds(3);
          auto server = Server::Start(TaskConfig::Create(cluster_, task).value(), options);
          if (!server.ok()) return;
          if (task.job == "ps") return life.AwaitEndOfWorld();
          const absl::StatusOr<std::string> bits = Train(life, **server);
          (*server)->Shutdown(bits.status());
          if (task.job != "chief" || world_.is_over()) return;
          outcome_ = bits.ok() ? *bits : bits.status().ToString();
        });
  }

  absl::StatusOr<std::string> Train(World::Life& life, Server& server) {
    const TaskConfig& task = server.task();
    GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
    WEIR_ASSIGN_OR_RETURN(const SyncModel model, SyncModel::Build(g, task, OnLoss::kWait));
    TrainingSessionOptions options;
    options.target = server.target();
    options.is_chief = task.is_chief();
    options.hooks = {SyncReplicasHook(task.is_chief()), StopAtStepHook({.last_step = kLastStep})};
    options.stops_on_sigterm = false;
    WEIR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(g, std::move(options)));
    life.OnEndOfWorld([&session] { session->RequestStop(); });
    absl::Status status;
    while (status.ok() && !session->should_stop()) {
      life.Sleep(absl::Milliseconds(100));
      status = model.RunStep(*session);
    }
    std::string bits;
    if (status.ok()) {
      WEIR_ASSIGN_OR_RETURN(const auto values,
                            session->session().Run({}, {model.step.value, model.a.value, model.b.value}));
      bits =
          DescribeWeights(values[0].scalar<int64_t>(), values[1].scalar<float>(), values[2].scalar<float>());
      status = session->Close();
    }
    life.OnEndOfWorld(nullptr);
    WEIR_RETURN_IF_ERROR(status);
    return bits;
  }

  World world_;
  ClusterSpec cluster_;
  std::vector<TaskName> tasks_;
  std::map<TaskName, World::Life*> lives_;
  int num_lives_ = 0;
  std::string outcome_;
};

TEST(SyncReplicasSimulationTest, AllOrdersAndKilledWorkersGiveTheSameBits) {
  const std::string expected = SyncJob(1).Run();
  EXPECT_THAT(expected, testing::HasSubstr(absl::StrCat("step ", kLastStep, ", ")));
  for (uint64_t seed = 2; seed <= 20; ++seed) EXPECT_EQ(SyncJob(seed).Run(), expected) << "seed " << seed;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SyncJob job(seed);
    job.KillAndRestart({"worker", static_cast<int>(seed % 2)}, absl::Milliseconds(500 + 37 * seed));
    EXPECT_EQ(job.Run(), expected) << "seed " << seed << ", with a killed worker";
  }
}

}  // namespace
}  // namespace weir
