// Synchronous replicas: workers that all train on the same values, and whose gradients are averaged before
// they change a variable (tf.train.SyncReplicasOptimizer).
//
//   auto optimizer = SyncReplicas(std::make_unique<Adam>(0.001), {.replicas_to_aggregate = 3});
//   Node* train = optimizer->Minimize(g, loss, GlobalStep(g)).value();
//   ... MonitoredTrainingSession(g, {..., .hooks = {SyncReplicasHook(task.is_chief())}})
//
// Every worker runs `train`, which ends when the step is over for all: the mean of the gradients was applied
// once, and the global step has grown by one. With more replicas than are aggregated the first ones of a
// step count and the others, its backup workers, are dropped.
//
// A step whose answer is lost is tried again with the same feeds. Its gradient may have counted, and counts
// in the next step too when the first one was released meanwhile. A program that must not use a batch twice
// chooses its batch inside MonitoredSession::RunStepFn, by the global step.
//
// Of rows (ops/embedding.h) each is divided by how many replicas had it, as in TensorFlow.
//
// How it works: each task with variables has a group (kernels/cpu/data_flow/replica_group.h) that holds the
// gradients of all its variables. A worker's step leaves them there, in one message, and waits for the
// group's release; the hook's thread on the chief runs the step that applies the means and releases. There
// are no queues of tokens: a replica is told which step it has seen when it is released.
#pragma once

#include <memory>

#include "ops/training/optimizer.h"

namespace weir {

// In which order gradients are added up: by rank, so that two runs give the same bits, or as they come, with
// less memory.
enum class ReduceOrder { kByRank, kArrival };

// What becomes of training when a worker is lost: the others go on without it, wait until it comes again, or
// end with an error that names it. A worker that ends by itself is not waited for in any case. A worker that
// has never come is waited for.
enum class OnLoss { kShrink, kWait, kFail };

struct SyncReplicasOptions {
  // How many gradients make a step; at least 1.
  int replicas_to_aggregate = 1;
  // How many workers there are; 0: replicas_to_aggregate. Not fewer than that (TensorFlow would let some give
  // two gradients).
  int total_num_replicas = 0;
  ReduceOrder order = ReduceOrder::kByRank;
  OnLoss on_loss = OnLoss::kShrink;
  // Above 0 workers may come and go (docs/guide/elastic.md): a step takes the gradients of all that take
  // part, of replicas_to_aggregate at most, and waits while they are fewer than this. A worker takes part
  // from its first gradients on; one that has come to its end makes up for one of these until another one
  // comes. Only with kShrink.
  int min_replicas = 0;
};

// Its ApplyGradients needs a global step. Errors, beside those of `optimizer`: InvalidArgument for options
// out of range, a null optimizer or one that trains local copies (Downpour, ElasticAveraging), no global
// step, a second SyncReplicas in one graph, or a control scope around it: it must be the outermost optimizer,
// for what LossScaleOptimizer (with a dynamic scale) or Downpour do only in some steps is not for the chief's
// thread. It may wrap LossScaleOptimizer. The step fails with
// an unfed placeholder where the session has no SyncReplicasHook.
std::unique_ptr<Optimizer> SyncReplicas(std::unique_ptr<Optimizer> optimizer,
                                        const SyncReplicasOptions& options);

// What ApplyGradients leaves in the graph's collection of this name, for SyncReplicasHook: the names of these
// nodes; of one for each group that keeps a replica there; and of one for each, in the same order, that says
// whom its step waits for.
inline constexpr char kSyncReplicasCollection[] = "sync_replicas";
// Those of two nodes, for who saves the variables in the chief's process: the first one fails with
// FailedPrecondition while an update is being applied, and none begins until the second one has run.
inline constexpr char kPausesUpdatesCollection[] = "pauses_updates";
enum class SyncReplicasNode {
  kLife,
  kUpdateNumber,
  kJoin,
  kReset,
  kUpdate,
  kStop,
  kFinish,
  kEnd,
  kClose,
  kCount
};

}  // namespace weir
