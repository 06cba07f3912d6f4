// Data-parallel training as Horovod's users know it: every process has the whole model, computes gradients on
// its own batches, and the processes average them in every step.
//
//   auto server = Server::Start(TaskConfigFromEnvironment().value()).value();   // workers only, no ps
//   auto hvd = Horovod::Init(*server).value();
//   ...
//   auto optimizer = hvd->DistributedOptimizer(Adam(0.001 * hvd->size()));
//   Node* train = optimizer->Minimize(g, loss, GlobalStep(g)).value();
//   auto session = MonitoredTrainingSession(
//       g, {.target = server->target(),
//           .checkpoint_dir = hvd->rank() == 0 ? dir : "",
//           .hooks = {hvd->BroadcastGlobalVariablesHook(), StopAtStepHook({.last_step = 1000})}});
//
// Every rank is the chief of its own session. `weir launch --workers=4 -- program` starts four ranks on this
// machine; torchrun, mpirun, Slurm and TF_CONFIG without ps do, too (task_config.h). A program that runs
// alone is one rank.
//
// Faults. When a rank is lost, the step of every other one fails with Aborted, its session is created anew,
// and the hook forms the group again and waits for the lost rank to be started again (`weir launch
// --restarts`). Then all take the variables of the rank that has done the most steps: a survivor, so that
// nothing is lost but the step under way. (Survivors that all wait in Join have updated nothing since; what
// the others have trained alone is lost with the last of them.) There is no commit() as in Horovod: a step
// updates nothing before all of its gradients have been averaged. Each rank then tries the call of its
// session again that has failed (Run, or RunStepFn with all of its steps), and what a step of it has updated
// before is not updated again. A rank whose call failed, but was done by others with what this rank had put
// in, does not do it again: its steps give the fetches, computed on the variables that are there then,
// without running targets, those of hooks neither; an AllReduce among them gives what this rank puts in, and
// a Join the rank whose variables these are. Where a fetch needs a target, an update or another collective,
// the process ends with Aborted (exit code 160) and must be started again. A rank that is started again
// begins with the call that the others try again; where it has restored a checkpoint of a later step than
// theirs, they leave out their call and begin the next one with it.
//
// So that calls can be told from one another, each call that updates variables meets the other ranks in it:
// one that only counts, beside them, may be done twice by a rank that was behind. When a turn of the training
// loop meets the others in several steps, these belong in one RunStepFn. With backward_passes_per_step, what
// the passes before a loss have summed is lost, and ranks may have come to different passes: such programs
// end after a step (StopAtStepHook) and not after a number of calls.
//
// A step that was cancelled in the middle of its updates, by a deadline for example, leaves variables that
// nobody takes over. A collective of a metric that fails meanwhile does not: it is told after the updates.
//
// All ranks must build the same graph (the hook compares the collectives, and names the first difference),
// run the same calls and stop after the same one, or run Join when they are out of data. When one stops
// earlier, the others fail with InvalidArgument. At the end the ranks stay until rank 0 has saved, because
// it may be lost before that: their Close waits for it. Another rank that is lost in the very last step is
// told, when it comes again, that training is over: OutOfRange, with which a program ends well (exit_code.h);
// the others have the result. Rank 0's server stays for that until the others end, for half a minute at most
// (Shutdown). Who comes later finds nobody, and ends with DeadlineExceeded after the timeout.
//
// Counterpart of horovod.tensorflow of Horovod. Thread safety: as the builder that is used.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distributed/gradient_averaging.h"
#include "distributed/server.h"
#include "graph/graph_builder.h"
#include "kernels/communicator.h"
#include "ops/training/optimizer.h"
#include "session/monitored/hook.h"

namespace weir {

struct HorovodOptions {
  // How long the ranks wait for one another when the group is formed, at the start and after a loss.
  absl::Duration timeout = absl::Minutes(5);
};

class Horovod {
 public:
  // Waits until all ranks are there. Borrows the server.
  // Possible errors: FailedPrecondition (the cluster has parameter servers, or the process is an evaluator),
  // DeadlineExceeded, naming who was awaited.
  static absl::StatusOr<std::unique_ptr<Horovod>> Init(Server& server, const HorovodOptions& options = {});

  int rank() const;
  int size() const;
  // Among the ranks whose addresses are on the same host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  // Nodes of collectives: every rank adds the same ones in the same order. Not differentiable, not in
  // conditionals or loops. Errors stick in the builder.
  //
  // The elementwise reduction of all ranks' tensors of one shape; bfloat16, half, float, double, int32,
  // int64. Reduction::kAdasum is of floating-point types, and averages nothing.
  Output AllReduce(GraphBuilder& g, Output x, Reduction reduction = Reduction::kSum, bool averages = true,
                   SourceLocation where = SourceLocation::Current());
  // Joined along dimension 0, whose size may differ, in the order of ranks; half, float, double, int32,
  // int64.
  Output AllGather(GraphBuilder& g, Output x, SourceLocation where = SourceLocation::Current());
  // The tensor of rank `root`; bool, half, float, double, int32, int64.
  Output Broadcast(GraphBuilder& g, Output x, int root, SourceLocation where = SourceLocation::Current());

  // This rank's rows of the reduction of all ranks' tensors of one shape: dimension 0 is divided among the
  // ranks, and the first ones have one row more where it cannot be divided evenly. The types of AllReduce.
  Output ReduceScatter(GraphBuilder& g, Output x, Reduction reduction = Reduction::kSum, bool averages = true,
                       SourceLocation where = SourceLocation::Current());
  // Sends the first splits[0] rows of x to rank 0, the next splits[1] rows to rank 1..., and joins what comes
  // in the order of ranks. `splits` is int64[size]; without it, as many rows go to each. Any type but string,
  // resource and variant.
  struct Exchanged {
    Output rows;
    Output splits;  // int64[size]: how many rows each rank has sent
  };
  Exchanged AllToAll(GraphBuilder& g, Output x, Output splits = {},
                     SourceLocation where = SourceLocation::Current());
  // Waits for all ranks.
  Node* Barrier(GraphBuilder& g, SourceLocation where = SourceLocation::Current());
  // Run by a rank that is out of data, in a step of its own: takes part in what the others compute, with
  // zeros or no rows, until all have run it. Gives the rank that was the last to do so, whose variables are
  // the newest: int32.
  Output Join(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

  // An optimizer that averages gradients over all ranks before it applies them. Rows of embeddings
  // (IndexedSlices) are gathered instead.
  template <typename Wrapped>
  std::unique_ptr<Optimizer> DistributedOptimizer(Wrapped optimizer,
                                                  const DistributedOptimizerOptions& options = {}) {
    return DistributedOptimizer(std::unique_ptr<Optimizer>(std::make_unique<Wrapped>(std::move(optimizer))),
                                options);
  }
  std::unique_ptr<Optimizer> DistributedOptimizer(std::unique_ptr<Optimizer> optimizer,
                                                  const DistributedOptimizerOptions& options = {});

  // Gives all ranks the variables of the one that has done the most steps (of several one that was there
  // before, of these one that has trained in the most calls, and the lowest of these) whenever a session is
  // created: at the start those of rank 0, or of the rank that has restored a checkpoint. It belongs before
  // other hooks that read variables.
  HookPtr BroadcastGlobalVariablesHook();

 private:
  Horovod(Server& server, const HorovodOptions& options) : server_(server), options_(options) {}

  Server& server_;
  const HorovodOptions options_;
  int local_rank_ = 0;
  int local_size_ = 1;
};

}  // namespace weir
