// Data-parallel training on several devices of one process, and on those of several processes: every device
// has the whole model, computes gradients on its own part of a batch, and all of them average these in every
// step.
//
//   auto strategy = MirroredStrategy::Create(server->runtime()).value();
//   GraphBuilder g(StandardOps());
//   const Output images = Placeholder(g, DType::kFloat32, {-1, 784});
//   const std::vector<Output> parts = strategy->Split(g, images);
//   const std::vector<Output> losses = strategy->Run(g, [&](const Replica& replica) {
//     return LossOf(g, parts[replica.index]);                      // the tower of one device
//   });
//   auto optimizer = strategy->MakeOptimizer([] { return Adam(0.001); });
//   Node* train = optimizer->Minimize(g, losses, GlobalStep(g)).value();
//   const Output loss = strategy->Reduce(g, losses);
//
// Towers. Run builds the model once for each device, in its device scope; all towers must make the same
// variables in the same order. That of replica 0 has the names that the model has without a strategy; the
// others are in the name scopes "replica_1"... Collections have what replica 0 puts into them, except for
// "update_ops" and local variables, which have that of all; so summaries are those of replica 0.
//
// Variables that are made in a tower are mirrored: each device has a copy, which reads in its tower give, and
// all copies have the first one's value. graph().variables(), and so a Saver, initialisers and checkpoints,
// know the first one, under its plain name: a checkpoint is that of the model without a strategy, and a run
// with any number of devices restores it. A session that is created by MonitoredTrainingSession sets the
// others after the first ones have been initialised or restored; where a session is made by hand,
// InitializeLocalVariables does that. Trainable variables must be made in a tower. Variables that a tower
// updates by itself, as batch normalization does, are each device's own from then on, and checkpoints have
// those of replica 0.
//
// Same bits: what is averaged is added up in the order of ranks, and is the same on all devices
// (distributed/collectives/device_group.h says when it is the same for every way of spreading ranks over
// processes; between GPUs NCCL has an order of its own, kernels/cuda/gpu_clique.h). No copy is updated before
// all gradients of the step have been averaged.
//
// Counterparts of tf.distribute.MirroredStrategy and MultiWorkerMirroredStrategy. The gradients of the
// replicas' losses are averaged, not summed up. CPU devices share this machine's memory. Thread safety: as
// the builder that is used.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distributed/collective_nodes.h"
#include "distributed/collectives/collective_group.h"
#include "distributed/gradient_averaging.h"
#include "distributed/server.h"
#include "graph/graph_builder.h"
#include "kernels/communicator.h"
#include "ops/training/optimizer.h"
#include "session/monitored/hook.h"
#include "session/runtime.h"

namespace weir {

// One device of this process.
struct Replica {
  int index = 0;  // among those of this process
  int rank = 0;   // among all
  int num_replicas_in_sync = 1;
};

struct MirroredOptions {
  // "/gpu:0", "/cpu:1"; empty: all GPUs of the process or, where it has none, all its CPUs.
  std::vector<std::string> devices;
  DistributedOptimizerOptions gradients;
  bool nccl = true;  // between GPUs; false: through the host's memory
};

class MirroredOptimizer;

class MirroredStrategy {
 public:
  // Borrows the runtime. InvalidArgument for a device that the runtime does not have, or one that comes
  // twice.
  static absl::StatusOr<std::unique_ptr<MirroredStrategy>> Create(Runtime& runtime,
                                                                  const MirroredOptions& options = {});
  virtual ~MirroredStrategy() = default;

  int num_replicas_in_sync() const { return num_processes_ * num_devices(); }
  int num_devices() const { return static_cast<int>(devices_.size()); }
  // "/device:CPU:1", as the towers' device scopes have them.
  const std::vector<std::string>& devices() const { return devices_; }

  // Builds a tower on each device: calls `build` with a Replica, one after the other, and gives what it
  // returned for each. Errors stick in the builder: InvalidArgument when towers make other variables.
  template <typename F>
  std::vector<std::invoke_result_t<F, const Replica&>> Run(GraphBuilder& g, F build,
                                                           SourceLocation where = SourceLocation::Current()) {
    std::vector<std::invoke_result_t<F, const Replica&>> results;
    RunAll(
        g, [&](const Replica& replica) { results.push_back(build(replica)); }, where);
    return results;
  }

  // Equal parts of a batch along dimension 0, one for each device of this process. Its rows must be a
  // multiple of the devices, which a step checks.
  std::vector<Output> Split(GraphBuilder& g, Output batch, SourceLocation where = SourceLocation::Current());

  // The elementwise reduction of all replicas' values of one shape, those of other processes included: by
  // default the mean, else with `averages` false what `reduction` says. `values` are the towers', one for
  // each device of this process. With several processes all of them must fetch it in the same steps.
  Output Reduce(GraphBuilder& g, const std::vector<Output>& values, Reduction reduction = Reduction::kSum,
                bool averages = true, SourceLocation where = SourceLocation::Current());

  // An optimizer for the towers' variables. `make` makes one for each device, with equal hyperparameters. It
  // borrows the strategy.
  template <typename F>
  std::unique_ptr<MirroredOptimizer> MakeOptimizer(F make) {
    if constexpr (std::is_convertible_v<std::invoke_result_t<F>, std::unique_ptr<Optimizer>>) {
      return MakeOptimizerOf(std::move(make));
    } else {
      return MakeOptimizerOf([make = std::move(make)]() -> std::unique_ptr<Optimizer> {
        return std::make_unique<std::invoke_result_t<F>>(make());
      });
    }
  }

 protected:
  MirroredStrategy(std::vector<std::string> devices, DistributedOptimizerOptions gradients, int process,
                   int num_processes, int64_t group_key)
      : devices_(std::move(devices)),
        gradients_(gradients),
        process_(process),
        num_processes_(num_processes),
        group_key_(group_key) {}

  // Makes the group of the devices known to its kernels; gives its key.
  static absl::StatusOr<int64_t> JoinDevices(Runtime& runtime, const std::vector<std::string>& devices,
                                             const RefPtr<RankGroup>& processes, bool nccl);
  static absl::StatusOr<std::vector<std::string>> ChooseDevices(const Runtime& runtime,
                                                                const std::vector<std::string>& asked);
  int64_t group_key() const { return group_key_; }

 private:
  friend class MirroredOptimizer;
  class Towers;

  void RunAll(GraphBuilder& g, absl::FunctionRef<void(const Replica&)> build, SourceLocation where) const;
  std::unique_ptr<MirroredOptimizer> MakeOptimizerOf(std::function<std::unique_ptr<Optimizer>()> make);
  // Of one tower; all towers get the same instance keys.
  CollectiveNodes NodesFrom(int64_t first_instance) const {
    return CollectiveNodes(group_key_, num_replicas_in_sync(), first_instance);
  }
  // Whether there is one value of each for each device; otherwise an error of the builder.
  bool CheckOneForEach(GraphBuilder& g, absl::string_view what, size_t count, SourceLocation where) const;

  const std::vector<std::string> devices_;
  const DistributedOptimizerOptions gradients_;
  const int process_;
  const int num_processes_;
  const int64_t group_key_;
};

// Minimizes the mean of the towers' losses. Errors are also the builder's.
class MirroredOptimizer {
 public:
  // The train op: its step updates all copies and increments the global step. `losses` are the towers', one
  // for each device of this process; the options name first copies.
  absl::StatusOr<Node*> Minimize(GraphBuilder& g, const std::vector<Output>& losses,
                                 const ModelVariable& global_step = {}, const GradientOptions& options = {},
                                 SourceLocation where = SourceLocation::Current());

  // The two halves of Minimize. Each tower's gradients, not averaged yet.
  // InvalidArgument, beside the errors of Optimizer: a variable that is not mirrored.
  absl::StatusOr<std::vector<std::vector<GradientAndVariable>>> ComputeGradients(
      GraphBuilder& g, const std::vector<Output>& losses, const GradientOptions& options = {},
      SourceLocation where = SourceLocation::Current());
  // Averages and applies them.
  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g,
                                       const std::vector<std::vector<GradientAndVariable>>& gradients,
                                       const ModelVariable& global_step = {},
                                       SourceLocation where = SourceLocation::Current());

 private:
  friend class MirroredStrategy;
  MirroredOptimizer(const MirroredStrategy& strategy, std::vector<std::unique_ptr<Optimizer>> optimizers)
      : strategy_(strategy), optimizers_(std::move(optimizers)) {}

  absl::Status Check(GraphBuilder& g, absl::string_view what, size_t count, SourceLocation where) const;
  std::vector<std::vector<GradientAndVariable>> Average(
      GraphBuilder& g, const std::vector<std::vector<GradientAndVariable>>& gradients, Node** begin,
      SourceLocation where) const;
  Node* BeginUpdates(GraphBuilder& g, const std::vector<Node*>& after, SourceLocation where) const;
  Node* EndUpdates(GraphBuilder& g, const Node* begin, Node* after, SourceLocation where) const;
  Node* Join(GraphBuilder& g, const std::vector<Node*>& trains, const ModelVariable& global_step,
             SourceLocation where) const;

  const MirroredStrategy& strategy_;
  const std::vector<std::unique_ptr<Optimizer>> optimizers_;
};

struct MultiWorkerMirroredOptions {
  // Of this process; every process must have the same.
  std::vector<std::string> devices;
  DistributedOptimizerOptions gradients;
  // How long the processes wait for one another when the group is formed, at the start and after a loss.
  absl::Duration timeout = absl::Minutes(5);
};

// The same over the workers of a cluster without parameter servers (TF_CONFIG with workers only, `weir launch
// --ps=0`). Every worker is the chief of its own session, whose hooks begin with
// BroadcastGlobalVariablesHook(); worker 0 writes checkpoints. Each worker feeds its own batches. When a
// worker is lost, the others wait until it has come again, and nothing is lost but the step under way: what
// distributed/horovod.h says about faults holds here, for updates of all devices of a process together. The
// hook compares the workers' collectives, which name devices: all use devices of the same names.
class MultiWorkerMirroredStrategy final : public MirroredStrategy {
 public:
  // Waits until all workers are there. Borrows the server. Errors: those of MirroredStrategy::Create and of
  // Horovod::Init.
  static absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> Create(
      Server& server, const MultiWorkerMirroredOptions& options = {});

  int worker() const;
  int num_workers() const;

  // Gives all workers the variables of the one that has done the most steps, whenever a session is created.
  // It belongs before other hooks that read variables.
  HookPtr BroadcastGlobalVariablesHook();

 private:
  MultiWorkerMirroredStrategy(Server& server, std::vector<std::string> devices,
                              const MultiWorkerMirroredOptions& options, int64_t group_key);

  Server& server_;
  const absl::Duration timeout_;
};

}  // namespace weir
