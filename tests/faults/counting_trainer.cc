// What the fault tests train: one ps-resident counter that every step increases by one, together with the
// global step.
//
// Each training task also counts its own steps on the ps, and appends what the count was after each of its
// steps to TASK.counts: one more than before, unless a step was lost, or was applied twice.
//
// It also stops when there is a file DIR/stop. Its flags are those of trainer.h, and --counted_workers for
// jobs that workers join. The chief prints "finished at step N, counter C, sum S" at the end, where
// S is the sum of what the tasks have counted; all three are equal if nothing was lost between them and
// nothing was applied twice.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/command/flag_parser.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/faults/trainer.h"

namespace weir {
namespace {

struct CountingFlags : TrainerFlags {
  int num_counted = 0;
};

// The last of it is not over while others are still in their last step: both are read until they agree, for a
// while.
absl::Status PrintCounts(MonitoredSession& session, const ModelVariable& step, const ModelVariable& counter,
                         const std::map<TaskName, ModelVariable>& counts) {
  std::vector<TensorRef> all = {step.value, counter.value};
  for (const auto& [task, count] : counts) all.push_back(count.value);
  int64_t last = 0, total = 0, sum = -1;
  for (const absl::Time end = absl::Now() + absl::Seconds(20); sum != last || total != last;) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.session().Run({}, all));
    last = values[0].scalar<int64_t>();
    total = static_cast<int64_t>(values[1].scalar<float>());
    sum = 0;
    for (size_t i = 2; i < values.size(); ++i) sum += static_cast<int64_t>(values[i].scalar<float>());
    if (absl::Now() > end) break;
  }
  std::printf("finished at step %lld, counter %lld, sum %lld\n", static_cast<long long>(last),
              static_cast<long long>(total), static_cast<long long>(sum));
  std::fflush(stdout);
  return absl::OkStatus();
}

struct Variables {
  ModelVariable step, counter;
  std::map<TaskName, ModelVariable> counts;
};

// Of several ps the first has them all; an evaluator has its own. There is a count of each task that trains,
// and of the first workers also where they are to join later: a model has the same variables in every task.
Variables MakeVariables(GraphBuilder& g, const TaskConfig& task, int num_counted) {
  const bool is_on_ps = task.num_ps() > 0 && !task.is_evaluator();
  const auto on_first_ps = g.DeviceScope(is_on_ps ? "/job:ps/task:0" : "");
  Variables variables = {GlobalStep(g), MakeVariable(g, "counter", Tensor::Scalar(0.0f)), {}};
  std::set<TaskName> counted;
  for (const TaskName& other : task.cluster().tasks()) {
    if (other.job != "ps") counted.insert(other);
  }
  for (int i = 0; i < num_counted; ++i) counted.insert({"worker", i});
  for (const TaskName& other : counted) {
    variables.counts[other] =
        MakeVariable(g, absl::StrCat("count_", other.job, "_", other.index), Tensor::Scalar(0.0f));
  }
  return variables;
}

absl::Status Train(const TaskConfig& task, Server& server, const CountingFlags& flags) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const auto [step, counter, counts] = MakeVariables(g, task, flags.num_counted);
  if (task.is_evaluator()) return EvaluateCheckpoints(g, server, flags);
  const Output own = counts.at(task.task()).handle;
  // One partition on the ps, so a step changes all or nothing.
  Node* count = nullptr;
  Output own_count;
  {
    auto beside = g.ColocationScope(counter.handle.node);
    const Output one = g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}});
    const Output one_step =
        g.AddOp("Const", {}, {{"value", Tensor::Scalar(int64_t{1})}, {"dtype", DType::kInt64}});
    Node* own_first = g.AddNode("AssignAddVariableOp", {own, one});
    Node* first = g.AddNode("AssignAddVariableOp", {counter.handle, one});
    auto after = g.ControlScope({first, own_first});
    own_count = g.AddOp("ReadVariableOp", {own}, {{"dtype", DType::kFloat32}});
    count = g.AddNode("AssignAddVariableOp", {step.handle, one_step});
  }
  WEIR_RETURN_IF_ERROR(g.status());
  TrainingSessionOptions options;
  options.target = server.target();
  options.is_chief = task.is_chief();
  options.checkpoint_dir = flags.checkpoint_dir();
  options.hooks = {StopAtStepHook({.last_step = flags.last_step})};
  options.save_checkpoint_steps = 10;
  options.save_summaries_steps = 0;
  options.recovery_timeout = absl::Seconds(flags.recovery_seconds);
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<MonitoredSession> session,
                        MonitoredTrainingSession(g, std::move(options)));
  const std::string stop_file = absl::StrCat(flags.dir, "/stop");
  while (!session->should_stop() && access(stop_file.c_str(), F_OK) != 0) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                          session->Run({}, {step.value, own_count}, {count}));
    const int64_t now = results[0].scalar<int64_t>();
    std::ofstream(absl::StrCat(flags.dir, "/", task.task().ToString(), ".counts"), std::ios::app)
        << results[1].scalar<float>() << "\n";
    absl::SleepFor(absl::Milliseconds(flags.step_ms));
    WriteFileAtOnce(absl::StrCat(flags.dir, "/", task.task().ToString(), ".step"), absl::StrCat(now));
  }
  if (task.is_chief()) WEIR_RETURN_IF_ERROR(PrintCounts(*session, step, counter, counts));
  return session->Close();
}

int Main(int argc, char** argv) {
  CountingFlags flags;
  FlagParser parser("counting_trainer", "[flags]", "Counts steps on a cluster, for fault tests.");
  flags.AddTo(parser);
  parser.Add("counted_workers", &flags.num_counted, "workers that have a count, with those of the cluster");
  if (absl::Status status = parser.Parse({argv + 1, argv + argc}); !status.ok()) {
    return FailTrainer("counting_trainer", status);
  }
  return RunTrainer("counting_trainer", flags,
                    [&](const TaskConfig& task, Server& server) { return Train(task, server, flags); });
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Main(argc, argv); }
