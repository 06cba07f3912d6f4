// Trains a classifier on Fashion-MNIST, alone or as one task of a cluster of parameter servers and workers.
//
// Alone:           fashion_mnist --model=cnn
// On a cluster:    weir launch --ps=1 --workers=2 -- fashion_mnist --model=mlp
// By hand, as every TF1 example does it, one terminal each:
//   fashion_mnist --job_name=ps     --task_index=0 --ps_hosts=localhost:2222 --worker_hosts=localhost:2223
//   fashion_mnist --job_name=worker --task_index=0 --ps_hosts=localhost:2222 --worker_hosts=localhost:2223
//
// With an evaluator: weir launch --ps=1 --workers=2 --evaluator -- fashion_mnist --model_dir=/tmp/model
//
// Without parameter servers, every worker with the whole model, averaging gradients in every step:
//   weir launch --ps=0 --workers=2 -- fashion_mnist --mode=horovod
//
// On several devices of one process, and of each of several: every device has the whole model.
//   fashion_mnist --mode=mirrored --devices=2
//   weir launch --ps=0 --workers=2 -- fashion_mnist --mode=multi_worker --devices=2
//
// Every task runs this same program. The ps hold the variables; each worker computes gradients on its own
// batches and applies them there, without waiting for the others (asynchronous between-graph replication).
// fashion_mnist_terse.cc is the shortest version: alone or asynchronous, without flags and checkpoints.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/command/flag_parser.h"
#include "distributed/horovod.h"
#include "distributed/mirrored_strategy.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/model.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/polynomial_decay.h"
#include "ops/training/sync_replicas.h"
#include "ops/variable.h"
#include "session/monitored/evaluation.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

namespace weir::examples {
namespace {

struct Flags {
  std::string model = "mlp";
  int epochs = 12;
  int batch_size = 100;
  double learning_rate = 0.001;
  std::string mode = "async";
  int backup_workers = 0;
  int devices = 2;
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::string model_dir;
  int seed = 0;
};

// The part of the test images that the model classifies right.
absl::StatusOr<double> Evaluate(Session& session, const Model& model, const LabeledImages& test) {
  std::vector<int32_t> order(test.count());
  std::iota(order.begin(), order.end(), 0);
  return Accuracy(session, model.images, model, test.count(), [&](int64_t begin, int64_t end) {
    return MakeBatch(test, absl::MakeConstSpan(order).subspan(begin, end - begin));
  });
}

// Whether each process has copies of the model on several devices.
bool IsMirrored(const Flags& flags) { return flags.mode == "mirrored" || flags.mode == "multi_worker"; }

// Whether every worker has variables of its own.
bool IsReplicated(const Flags& flags) { return flags.mode == "horovod" || IsMirrored(flags); }

// How many batches one step takes.
int BatchesPerStep(const TaskConfig& task, const Flags& flags) {
  if (IsMirrored(flags)) return task.num_workers() * flags.devices;
  if (flags.mode == "horovod") return task.num_workers();
  return flags.mode == "sync" ? task.num_workers() - flags.backup_workers : 1;
}

// The steps are counted across all workers: together they see every image `epochs` times.
int64_t LastStep(const TaskConfig& task, const Flags& flags, const Dataset& dataset) {
  const int64_t images_per_step = int64_t{flags.batch_size} * BatchesPerStep(task, flags);
  return std::max<int64_t>(1, flags.epochs * dataset.train.count() / images_per_step);
}

absl::Status CheckMode(const TaskConfig& task, const Flags& flags) {
  const bool is_known = flags.mode == "async" || flags.mode == "sync" || IsReplicated(flags);
  if (!is_known) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mode is '", flags.mode, "', must be async, sync, horovod, mirrored or multi_worker"));
  }
  if (flags.mode == "mirrored" && task.num_workers() + task.num_ps() > 1) {
    return absl::InvalidArgumentError(
        "--mode=mirrored trains in one process, but this one is part of a cluster (--mode=multi_worker "
        "trains "
        "in several)");
  }
  if (!IsReplicated(flags) && task.num_ps() == 0 && task.num_workers() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", task.num_workers(),
                                                   " workers and no parameter servers: each would train a "
                                                   "model of its own (--mode=horovod trains one)"));
  }
  if (!IsMirrored(flags) && flags.devices != Flags().devices) {
    return absl::InvalidArgumentError("--devices needs --mode=mirrored or --mode=multi_worker");
  }
  if (flags.backup_workers == 0) return absl::OkStatus();
  if (flags.mode != "sync") return absl::InvalidArgumentError("--backup_workers needs --mode=sync");
  if (flags.backup_workers < task.num_workers()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--backup_workers is ", flags.backup_workers, " of ",
                                                 task.num_workers(), " workers: none is left to train"));
}

// What trains copies of one model: Horovod a copy in each worker, a strategy one on each device. Both null:
// there are none, the variables are on parameter servers or the program runs alone.
struct Replicas {
  std::unique_ptr<Horovod> hvd;
  std::unique_ptr<MirroredStrategy> strategy;
  HookPtr hook;  // gives all workers the same values
};

absl::StatusOr<Replicas> MakeReplicas(Server& server, const Flags& flags) {
  Replicas replicas;
  if (flags.mode == "mirrored") {
    WEIR_ASSIGN_OR_RETURN(replicas.strategy, MirroredStrategy::Create(server.runtime()));
  } else if (flags.mode == "multi_worker") {  // waits for the other workers, as Horovod does
    WEIR_ASSIGN_OR_RETURN(auto strategy, MultiWorkerMirroredStrategy::Create(server));
    replicas.hook = strategy->BroadcastGlobalVariablesHook();
    replicas.strategy = std::move(strategy);
  } else if (flags.mode == "horovod") {
    WEIR_ASSIGN_OR_RETURN(replicas.hvd, Horovod::Init(server));
    replicas.hook = replicas.hvd->BroadcastGlobalVariablesHook();
  }
  return replicas;
}

// Alone, or together with the other workers: then all of them compute gradients of the same values, and the
// mean of them is applied, by parameter servers, by each worker (with Horovod) or by each device. `towers`:
// the model, or its copies on the devices of this process.
absl::StatusOr<Node*> Minimize(GraphBuilder& g, const TaskConfig& task, const Flags& flags,
                               const Replicas& replicas, const std::vector<Model>& towers, Output rate,
                               const ModelVariable& step) {
  if (replicas.strategy != nullptr) {
    std::vector<Output> losses;
    for (const Model& tower : towers) losses.push_back(tower.loss);
    return replicas.strategy->MakeOptimizer([&] { return Adam(rate); })->Minimize(g, losses, step);
  }
  std::unique_ptr<Optimizer> adam = std::make_unique<Adam>(rate);
  if (replicas.hvd != nullptr) adam = replicas.hvd->DistributedOptimizer(std::move(adam));
  if (flags.mode == "sync") {
    adam = SyncReplicas(std::move(adam), {.replicas_to_aggregate = BatchesPerStep(task, flags),
                                          .total_num_replicas = task.num_workers()});
  }
  return adam->Minimize(g, towers[0].loss, step);
}

absl::Status Train(const TaskConfig& task, Server& server, const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(Dataset dataset, ReadDataset(flags.data_dir));
  WEIR_ASSIGN_OR_RETURN(const Replicas replicas, MakeReplicas(server, flags));

  // The graph. The device setter puts variables on the ps tasks in turn and everything else on this worker;
  // alone, it does nothing. All workers build the same graph, so they name, and thereby share, the same
  // variables.
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  if (flags.seed != 0) g.set_random_seed(flags.seed);
  const auto build = [&](const Replica&) { return BuildModel(g, flags.model); };
  const std::vector<Model> towers =
      replicas.strategy ? replicas.strategy->Run(g, build) : std::vector<Model>{build({})};
  if (!g.ok()) return g.status();
  const Model& model = towers[0];
  const int64_t last_step = LastStep(task, flags, dataset);
  const ModelVariable step = GlobalStep(g);
  // Smaller and smaller steps: at the end the model settles instead of jumping about. The mean of several
  // batches is less noisy than one of them, so steps may be larger.
  const double first_rate = flags.learning_rate * std::sqrt(BatchesPerStep(task, flags));
  const Output rate =
      PolynomialDecay(g, first_rate, step.value, last_step, {.end_learning_rate = first_rate / 20});
  absl::StatusOr<Node*> train = Minimize(g, task, flags, replicas, towers, rate, step);
  // Errors in building stick in the builder: one check, here, covers every line above.
  if (!g.ok()) return g.status();

  // A replica initializes variables of its own; only the chief writes checkpoints.
  TrainingSessionOptions options = {
      .target = server.target(),
      .is_chief = IsReplicated(flags) || task.is_chief(),
      .checkpoint_dir = task.is_chief() || !IsReplicated(flags) ? flags.model_dir : "",
      .hooks = {StopAtStepHook({.last_step = last_step}), NanTensorHook({.tensor = model.loss})},
      .save_checkpoint_interval = absl::Seconds(30)};
  // Before the hooks that read variables.
  if (replicas.hook) options.hooks.insert(options.hooks.begin(), replicas.hook);
  if (flags.mode == "sync") options.hooks.push_back(SyncReplicasHook(task.is_chief()));
  if (task.is_chief()) {
    options.hooks.push_back(ProgressHook({.last_step = last_step, .tensors = {{"loss", model.loss}}}));
  }
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<MonitoredSession> session,
                        MonitoredTrainingSession(g, std::move(options)));

  // Every worker draws its batches in an order of its own, one for each of its towers.
  ShuffledBatches batches(dataset.train, flags.batch_size, flags.seed * 1000003 + task.task_index());
  const Tensor yes = Tensor::Scalar(true);
  while (!session->should_stop()) {
    Feeds feeds;
    for (const Model& tower : towers) {
      const Batch batch = batches.Next();
      feeds.push_back({tower.images, batch.images});
      feeds.push_back({tower.labels, batch.labels});
      feeds.push_back({tower.is_training, yes});
    }
    WEIR_RETURN_IF_ERROR(session->Run(feeds, {}, {*train}).status());
  }
  double accuracy = 0;
  if (task.is_chief()) {
    WEIR_ASSIGN_OR_RETURN(accuracy, Evaluate(session->session(), model, dataset.test));
  }
  WEIR_RETURN_IF_ERROR(session->Close());  // saves the last checkpoint
  if (task.is_chief()) {
    std::printf("test accuracy: %.3f\n", accuracy);
    if (!flags.model_dir.empty()) {
      std::printf("checkpoints and event files: %s (tensorboard --logdir %s)\n", flags.model_dir.c_str(),
                  flags.model_dir.c_str());
    }
  }
  return absl::OkStatus();
}

// What the evaluator of a cluster does. It is no part of the training cluster and never trains: all that it
// shares with the others is the folder of checkpoints. It evaluates each new one, on variables of its own,
// until that of the last step.
absl::Status Follow(const TaskConfig& task, Server& server, const Flags& flags) {
  if (flags.model_dir.empty()) return absl::InvalidArgumentError("an evaluator needs --model_dir");
  WEIR_ASSIGN_OR_RETURN(Dataset dataset, ReadDataset(flags.data_dir));
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Model model = BuildModel(g, flags.model);
  if (!g.ok()) return g.status();
  Evaluator evaluator(g, {.target = server.target(),
                          .steps = [&](MonitoredSession& session) -> absl::StatusOr<NamedValues> {
                            WEIR_ASSIGN_OR_RETURN(const double accuracy,
                                                  Evaluate(session.session(), model, dataset.test));
                            return NamedValues{{"accuracy", Tensor::Scalar(accuracy)}};
                          },
                          // TensorBoard shows it beside the chief's curves.
                          .summary_dir = flags.model_dir + "/eval"});
  const auto print = [](const Evaluation& found) -> absl::StatusOr<bool> {
    std::printf("step %lld: test accuracy: %.3f\n", static_cast<long long>(found.global_step),
                found.values[0].second.scalar<double>());
    std::fflush(stdout);
    return false;  // true would end it
  };
  return EvaluateRepeatedly(flags.model_dir,
                            [&](const std::string& checkpoint) { return evaluator.Evaluate(checkpoint); },
                            {.last_step = LastStep(task, flags, dataset), .after_evaluation = print})
      .status();
}

int Main(int argc, char** argv) {
  const auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "fashion_mnist: %s\n", std::string(status.message()).c_str());
    return ExitCodeFor(status);
  };
  // TF_CONFIG, or --job_name --task_index --ps_hosts --worker_hosts; with neither, the program runs alone.
  absl::StatusOr<TaskConfig> task = TaskConfigFromCommandLine(&argc, argv);
  if (!task.ok()) return fail(task.status());

  Flags flags;
  FlagParser parser("fashion_mnist", "[flags]", "Trains a classifier on Fashion-MNIST or MNIST.");
  parser.Add("model", &flags.model, "mlp or cnn");
  parser.Add("epochs", &flags.epochs, "how often all workers together see every training image",
             {.least = 1, .most = 1000000});
  parser.Add("batch_size", &flags.batch_size, "images per step", {.least = 1, .most = 1000000});
  parser.Add("learning_rate", &flags.learning_rate,
             "of Adam in the first step, for one batch a step; it falls to a twentieth",
             {.least = 1e-12});  // with 0 nothing is learnt
  parser.Add(
      "mode", &flags.mode,
      "async; sync: workers wait for each other, and a step takes a batch of each; horovod: the same without "
      "parameter servers, every worker has the whole model; mirrored: one process, and every device has it; "
      "multi_worker: every device of every worker");
  parser.Add("backup_workers", &flags.backup_workers,
             "with --mode=sync: how many workers' batches a step does not wait for",
             {.least = 0, .most = 1000000});
  parser.Add("devices", &flags.devices,
             "with --mode=mirrored and multi_worker: CPU devices of each process, which share its cores",
             {.least = 1, .most = Runtime::kMaxDevices});
  parser.Add("data_dir", &flags.data_dir, "folder with the four idx files, plain or .gz");
  parser.Add("model_dir", &flags.model_dir,
             "folder for checkpoints and event files; empty: none are written");
  parser.Add("seed", &flags.seed, "0: different numbers in every run");
  absl::Status status = parser.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (parser.wants_help()) return std::fputs((parser.Help() + TaskFlagsHelp()).c_str(), stdout), 0;
  if (!status.ok()) {  // it names the program already
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return ExitCodeFor(status);
  }

  if (status = CheckMode(*task, flags); !status.ok()) return fail(status);

  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(*task, {.num_cpus = IsMirrored(flags) ? flags.devices : 1});
  if (!server.ok()) return fail(server.status());
  if (task->job() == "ps") return (*server)->Join();  // until the workers are done: a ps never needs killing
  status = task->is_evaluator() ? Follow(*task, **server, flags) : Train(*task, **server, flags);
  (*server)->Shutdown(status);
  return status.ok() ? kExitDone : fail(status);
}

}  // namespace
}  // namespace weir::examples

int main(int argc, char** argv) { return weir::examples::Main(argc, argv); }
