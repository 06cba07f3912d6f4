// What the fault tests of synchronous replicas train: a model on two ps, or without any, whose batches follow
// from the global step and the worker, so that every run without a difference in its gradients ends with the
// same bits.
//
// Without a ps every worker has the model, and they average gradients (horovod.h); with --devices above 1
// each of its devices has it (mirrored_strategy.h).
//
// The chief also stops when there is a file DIR/stop. Its flags are those of trainer.h, --backup_workers,
// --on_loss, --elastic_workers and --dropout. The chief prints "finished at step N, bits B", where B is a sum
// over the bits of all variables. With --elastic_workers a variable has an element for each worker that only
// this worker's gradients change; then it prints also "gradients of workers 0 2 were applied".
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/command/flag_parser.h"
#include "distributed/horovod.h"
#include "distributed/mirrored_strategy.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/sync_replicas.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/faults/trainer.h"

namespace weir {
namespace {

constexpr int64_t kNumbers = 1000;

struct Flags : TrainerFlags {
  int backup_workers = 0;
  std::string on_loss = "shrink";
  int elastic_workers = 0;
  std::string dropout = "none";
};

// The batch of a worker in a step.
Tensor Batch(int64_t step, int worker) {
  std::mt19937 random(static_cast<uint32_t>(step * 1000 + worker));
  Tensor batch(DType::kFloat32, {kNumbers});
  for (float& number : batch.flat<float>()) number = static_cast<float>(random() % 1000) / 500 - 1;
  return batch;
}

uint64_t BitsOf(const std::vector<Tensor>& values) {
  uint64_t sum = 14695981039346656037u;  // FNV-1a
  for (const Tensor& value : values) {
    for (size_t i = 0; i < value.num_bytes(); ++i) {
      sum = (sum ^ static_cast<const uint8_t*>(value.data())[i]) * 1099511628211u;
    }
  }
  return sum;
}

// What is drawn in a step: with "stateless" a function of the step and the worker; with "stateful" of how
// many steps this process has made, as in TensorFlow.
Output Dropped(GraphBuilder& g, Output x, Output seed, absl::string_view dropout) {
  if (dropout == "none") return x;
  const Output shape = Const(g, Tensor::Vector<int32_t>({static_cast<int32_t>(kNumbers)}));
  const Output drawn =
      dropout == "stateless"
          ? g.AddOp("StatelessRandomUniform", {shape, seed}, {{"dtype", DType::kFloat32}})
          : g.AddOp("RandomUniform", {shape},
                    {{"dtype", DType::kFloat32}, {"seed", int64_t{1}}, {"seed2", int64_t{2}}});
  return Mul(g, x, Floor(g, Add(g, drawn, Const(g, 0.5f))));
}

// What trains in step with the others, the hook that goes with it, and whether this process initialises and
// saves.
struct InStep {
  Node* train = nullptr;
  HookPtr hook;
  bool is_chief = false;
  bool saves = false;
  Output contributions;  // an element for each worker; none without --elastic_workers
};

// The model: its loss for what is fed to x.
Output LossOf(GraphBuilder& g, Output x) {
  std::vector<Output> losses;
  for (const char* name : {"a", "b", "c"}) {
    const ModelVariable variable = MakeVariable(g, name, DType::kFloat32, {kNumbers}, initializers::Ones());
    losses.push_back(Sum(g, Mul(g, Square(g, variable.value), x), Const(g, 0)));
  }
  return AddN(g, losses);
}

// Stays as it is where the gradients of no worker but this one are applied, but for this worker's element.
Output OwnElement(GraphBuilder& g, int num_workers, int worker, Output* all) {
  const ModelVariable variable =
      MakeVariable(g, "contributions", DType::kFloat32, {num_workers}, initializers::Ones());
  *all = variable.value;
  Tensor is_own(DType::kFloat32, {num_workers});
  for (int i = 0; i < num_workers; ++i) is_own.flat<float>()[i] = i == worker ? 1 : 0;
  return Sum(g, Mul(g, variable.value, Const(g, is_own)), Const(g, 0));
}

std::string ContributorsOf(const Tensor& contributions) {
  std::string text;
  for (int64_t i = 0; i < contributions.num_elements(); ++i) {
    if (contributions.flat<float>()[i] != 1) absl::StrAppend(&text, i, " ");
  }
  return text;
}

// Adds the model for each of `xs`, several of them on as many devices.
absl::StatusOr<InStep> AddTraining(GraphBuilder& g, const TaskConfig& task, Server& server,
                                   const Flags& flags, const std::vector<Output>& xs,
                                   const ModelVariable& step) {
  InStep in_step = {.is_chief = task.is_chief(), .saves = true};
  if (task.num_ps() == 0) {
    in_step.is_chief = true;
    in_step.saves = task.is_chief();
  }
  if (xs.size() > 1) {
    WEIR_ASSIGN_OR_RETURN(const auto strategy, MultiWorkerMirroredStrategy::Create(server));
    in_step.hook = strategy->BroadcastGlobalVariablesHook();
    const std::vector<Output> losses =
        strategy->Run(g, [&](const Replica& replica) { return LossOf(g, xs[replica.index]); });
    WEIR_ASSIGN_OR_RETURN(in_step.train,
                          strategy->MakeOptimizer([] { return Adam(0.01); })->Minimize(g, losses, step));
    return in_step;
  }
  Output loss = LossOf(g, xs[0]);
  if (flags.elastic_workers > task.task_index()) {
    loss = Add(g, loss, OwnElement(g, flags.elastic_workers, task.task_index(), &in_step.contributions));
  }
  if (task.is_evaluator()) return in_step;
  std::unique_ptr<Optimizer> optimizer;
  if (task.num_ps() == 0) {
    WEIR_ASSIGN_OR_RETURN(const auto hvd, Horovod::Init(server));
    in_step.hook = hvd->BroadcastGlobalVariablesHook();
    optimizer = hvd->DistributedOptimizer(Adam(0.01));
  } else {
    const int num_workers = flags.elastic_workers > 0 ? flags.elastic_workers : task.num_workers();
    const OnLoss on_loss = flags.on_loss == "wait"   ? OnLoss::kWait
                           : flags.on_loss == "fail" ? OnLoss::kFail
                                                     : OnLoss::kShrink;
    in_step.hook = SyncReplicasHook(task.is_chief());
    optimizer = SyncReplicas(std::make_unique<Adam>(0.01),
                             {.replicas_to_aggregate = num_workers - flags.backup_workers,
                              .total_num_replicas = num_workers,
                              .on_loss = on_loss,
                              .min_replicas = flags.elastic_workers > 0 ? 1 : 0});
  }
  WEIR_ASSIGN_OR_RETURN(in_step.train, optimizer->Minimize(g, loss, step));
  return in_step;
}

absl::Status Train(const TaskConfig& task, Server& server, const Flags& flags) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  std::vector<Output> xs;
  for (int i = 0; i < flags.devices; ++i) {
    xs.push_back(
        g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({kNumbers})}}));
  }
  const Output seed = g.AddOp("Placeholder", {}, {{"dtype", DType::kInt64}, {"shape", PartialShape({2})}});
  std::vector<Output> inputs;
  for (const Output x : xs) inputs.push_back(Dropped(g, x, seed, flags.dropout));
  const ModelVariable step = GlobalStep(g);
  WEIR_ASSIGN_OR_RETURN(const InStep in_step, AddTraining(g, task, server, flags, inputs, step));
  if (task.is_evaluator()) return EvaluateCheckpoints(g, server, flags);
  std::vector<TensorRef> variables;
  for (const ModelVariable& variable : AllVariables(g)) variables.push_back(variable.value);
  TrainingSessionOptions options;
  options.target = server.target();
  options.is_chief = in_step.is_chief;
  if (in_step.saves) options.checkpoint_dir = flags.checkpoint_dir();
  options.hooks = {in_step.hook, StopAtStepHook({.last_step = flags.last_step})};
  options.save_checkpoint_steps = 10;
  options.save_summaries_steps = 0;
  options.recovery_timeout = absl::Seconds(flags.recovery_seconds);
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<MonitoredSession> session,
                        MonitoredTrainingSession(g, std::move(options)));
  const std::string stop_file = absl::StrCat(flags.dir, "/stop");
  while (!session->should_stop() && !(task.is_chief() && access(stop_file.c_str(), F_OK) == 0)) {
    absl::SleepFor(absl::Milliseconds(flags.step_ms));
    WEIR_RETURN_IF_ERROR(session->RunStepFn([&](MonitoredSession::StepContext& context) -> absl::Status {
      WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> now, context.session().Run({}, {step.value}));
      Feeds feeds = {{seed, Tensor::Vector<int64_t>({task.task_index(), now[0].scalar<int64_t>()})}};
      for (int i = 0; i < flags.devices; ++i) {
        feeds.push_back({xs[i], Batch(now[0].scalar<int64_t>(), task.task_index() * flags.devices + i)});
      }
      WEIR_RETURN_IF_ERROR(context.RunWithHooks(feeds, {}, {in_step.train}).status());
      WriteFileAtOnce(absl::StrCat(flags.dir, "/", task.task().ToString(), ".step"),
                      absl::StrCat(now[0].scalar<int64_t>()));
      return absl::OkStatus();
    }));
  }
  if (task.is_chief()) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->session().Run({}, variables));
    WEIR_ASSIGN_OR_RETURN(const int64_t last, session->GlobalStep());
    std::printf("finished at step %lld, bits %016llx\n", static_cast<long long>(last),
                static_cast<unsigned long long>(BitsOf(values)));
    if (flags.elastic_workers > 0) {
      WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> contributions,
                            session->session().Run({}, {in_step.contributions}));
      std::printf("gradients of workers %swere applied\n", ContributorsOf(contributions[0]).c_str());
    }
    std::fflush(stdout);
  }
  return session->Close();
}

int Main(int argc, char** argv) {
  Flags flags;
  FlagParser parser("sync_trainer", "[flags]", "Trains synchronous replicas on a cluster, for fault tests.");
  flags.AddTo(parser);
  parser.Add("backup_workers", &flags.backup_workers, "how many gradients of a step may be missing");
  parser.Add("on_loss", &flags.on_loss, "shrink, wait or fail");
  parser.Add("elastic_workers", &flags.elastic_workers, "workers come and go, at most so many");
  parser.Add("dropout", &flags.dropout, "of half of each batch: none, stateless or stateful");
  if (absl::Status status = parser.Parse({argv + 1, argv + argc}); !status.ok()) {
    return FailTrainer("sync_trainer", status);
  }
  return RunTrainer("sync_trainer", flags,
                    [&](const TaskConfig& task, Server& server) { return Train(task, server, flags); });
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Main(argc, argv); }
