// A worker's part of a plan: its programs, and the steps of it that run here.
//
// Owned by the LocalWorker and by its own steps while threads have them. Thread safety: all methods. Borrows
// the Threads, the TensorSender and the UpdateLedger.
//
// A plan keeps a pool of steps: a step holds the frames, the rendezvous and the cancellation token of one
// step and is reused, so a running step allocates nothing of its own. The pool holds no more idle steps than
// are active, or a few: a burst of steps leaves nothing behind. A step may come into being by its
// RunPartition, by a tensor that another worker pushed early, or by an early CancelStep; it leaves with its
// RunPartition, with a CancelStep before that, with a later RunPartition that says that it is over for its
// owner, or with its plan. Ids of steps that have left are remembered until then, so that a tensor that comes
// late makes no new step.
//
// A started step counts what has not finished: its programs, and calls from outside that are working on it.
// Whatever finishes last ends the step. While other threads may run the step, it keeps its plan alive.
//
// What finishes last is often an activation of the step, which is then still on the stack. It touches nothing
// of the step after it has said that it is over (Activation::CallDone), because another thread may be using
// the step by then. For the same reason the step may just as well be destroyed.
//
// Progress: as promised by LocalWorker (local_worker.h), whose methods these are for one plan.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/environment.h"
#include "kernels/late_errors.h"
#include "kernels/session_state.h"
#include "session/early_steps.h"
#include "session/executor/activation.h"
#include "session/executor/overlap.h"
#include "session/executor/program.h"
#include "session/executor/program_trace.h"
#include "session/executor/recorded_runs.h"
#include "session/executor/update_ledger.h"
#include "session/late_results.h"
#include "session/received_edges.h"
#include "session/rendezvous.h"
#include "session/runtime.h"
#include "session/step_copies.h"
#include "session/tensor_sender.h"
#include "session/worker.h"

namespace weir {

class LocalPlan : public std::enable_shared_from_this<LocalPlan> {
 public:
  using Done = Worker::Done;

  // Possible errors: those of Program::Compile, NotFound (no such device), InvalidArgument (arguments,
  // results or edges beyond those of the spec, or results that nothing computes), ResourceExhausted (too many
  // edges are received here).
  static absl::StatusOr<std::shared_ptr<LocalPlan>> Compile(Runtime& runtime, Threads& threads,
                                                            TensorSender* sender, const PartitionSpec& spec,
                                                            SessionState* session,
                                                            std::shared_ptr<EarlySteps> early_steps,
                                                            UpdateLedger* ledger);

  LocalPlan(Environment& environment, Threads& threads, TensorSender* sender, const PartitionSpec& spec,
            std::shared_ptr<EarlySteps> early_steps, UpdateLedger* ledger)
      : environment_(environment),
        threads_(threads),
        sender_(sender),
        early_steps_(std::move(early_steps)),
        ledger_(ledger),
        id_(spec.plan),
        session_(spec.session),
        num_edges_(spec.num_edges),
        num_args_(spec.num_args),
        num_results_(spec.num_results),
        num_late_args_(spec.num_late_args),
        num_late_results_(spec.num_late_results) {}

  void Run(const RunPartitionCall& call, Done done);
  void Cancel(int64_t step_id, const absl::Status& reason);
  absl::Status Receive(int64_t step_id, int edge, int64_t turn, const Tensor& tensor, bool is_dead);
  // PermissionDenied when the edge comes from another task than `sender`.
  absl::Status CheckSender(int edge, absl::string_view sender) const;
  absl::StatusOr<bool> Hold(int64_t step_id, int edge, int64_t turn, std::shared_ptr<void> held);
  absl::Status Feed(int64_t step_id, int arg, const Tensor& tensor);
  // Cancels all steps; the plan accepts no more.
  void Close(const absl::Status& reason);
  void WaitUntilIdle();
  std::string DescribeWaits() const;
  // Whether its programs have been known to be short.
  bool is_light() const;
  int num_running() const {
    absl::MutexLock lock(&mutex_);
    return num_running_;
  }
  int num_idle() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(pool_.size());
  }

 private:
  // What this worker keeps of one step; reused by later steps.
  struct StepState {
    explicit StepState(LocalPlan& plan);
    std::unique_ptr<Activation> MakeExecutor(LocalPlan& plan, size_t program);
    StepContext context;
    Cancellation cancellation;
    Rendezvous rendezvous;
    LateResults late_results;
    StepCopies copies;
    std::vector<std::unique_ptr<ProgramFrame>> frames;
    std::vector<std::unique_ptr<Activation>> activations;  // by program
    // By program: for static ones whose kernels overlap, made when needed.
    std::vector<std::unique_ptr<Activation>> overlapping;
    std::vector<Activation*> running;                   // those of this step
    std::vector<std::unique_ptr<ProgramTrace>> traces;  // by program; of a step that is traced
    std::vector<std::shared_ptr<void>> held;  // guarded by the plan's mutex while the step is active
    uint64_t abort_callback = 0;
    bool started = false;
    bool is_early = false;  // counted by early_steps_: it has not started
    const RunPartitionCall* call = nullptr;
    Done done;
    std::shared_ptr<LocalPlan> plan;  // while threads have its activations, or devices its copies
    Threads::TimerId timer = 0;
    std::optional<UpdateLedger::Attempt> updates;  // of a step that may be tried again
    std::atomic<int> programs_left{0};
    absl::Mutex status_mutex;
    absl::Status status ABSL_GUARDED_BY(status_mutex);
  };

  // One program, in which nothing waits: it needs no activation, unless its kernels overlap, or the caller
  // wants to know of the step before it computes.
  bool may_run_at_once() const {
    return programs_.size() == 1 && programs_[0]->is_static() && num_late_results_ == 0;
  }
  // No program waits, so all can run while no update does.
  bool may_capture() const {
    return num_late_results_ == 0 && std::all_of(programs_.begin(), programs_.end(),
                                                 [](const auto& program) { return program->is_static(); });
  }
  // Edges that other workers may send to: all but those whose other end is the caller.
  int num_sent_edges() const { return num_edges_ - num_late_args_ - num_late_results_; }
  absl::Status CheckSent(int edge) const;
  absl::Status CheckBindings(const Program& program) const;
  absl::Status CheckLate(const Graph& graph) const;
  absl::Status AddEdges(const Graph& graph);
  static absl::StatusOr<int> HeadStartOf(const Node& recv);
  absl::Status FinishEdges();
  absl::Status CheckResults() const;
  int64_t StepBytes() const;
  StepState* Find(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts an idle step, or a new one, into its empty place in active_.
  StepState& Fill(int64_t step_id, std::unique_ptr<StepState>& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For what comes for a step before it has started, or while it runs.
  absl::StatusOr<StepState*> FindOrCreateEarly(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveEarly(StepState& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps a started step from finishing until the holder calls OnProgramDone. False when it is finishing
  // already.
  static bool TryHold(StepState& step);
  void StartPrograms(StepState& step);
  // Notes what has been applied by then for a step that reads variables to save them.
  void RunAndCapture(StepState& step);
  void RunActivations(StepState& step);
  // The only program, on the calling thread.
  absl::Status RunAtOnce(StepState& step);
  // Precondition: the caller keeps the step from ending.
  void StartTimer(StepState& step);
  void SetUpdates(StepState& step, std::optional<UpdateLedger::Attempt> updates);
  void BeginTrace(StepState& step);
  void EndTrace(StepState& step);
  Activation& ActivationOf(StepState& step, size_t program);
  void OnDeadline(int64_t step_id);
  std::string AwaitedEdges(const Rendezvous& rendezvous) const;
  void OnProgramDone(StepState& step, const absl::Status& status);
  void Finish(StepState& step);
  void Remember(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WithdrawTensors(int64_t step_id) const;
  bool IsOver(int64_t step_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees what is kept for steps below this one that do not run. `dropped`: steps to be recycled without the
  // lock.
  void ForgetBelow(int64_t step_id, std::vector<std::unique_ptr<StepState>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of what the step holds of others. Before its caller hears that it is over.
  void Clear(StepState& step);
  // Returns the cleared step to the pool, destroys those that are too many, and ends its run if it had begun.
  void Recycle(std::unique_ptr<StepState> step) ABSL_LOCKS_EXCLUDED(mutex_);
  std::unique_ptr<StepState> Extract(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Environment& environment_;
  Threads& threads_;
  TensorSender* const sender_;
  const std::shared_ptr<EarlySteps> early_steps_;
  UpdateLedger* const ledger_;
  const PlanId id_;
  const SessionId session_;
  const int num_edges_;
  const int num_args_;
  const int num_results_;
  const int num_late_args_;
  const int num_late_results_;
  std::vector<std::unique_ptr<const Program>> programs_;
  std::deque<ProgramCost> costs_;                        // by program
  std::deque<Overlap> overlaps_;                         // by program
  std::vector<std::unique_ptr<RecordedRuns>> recorded_;  // by program; null for those that are not recorded
  bool has_updates_ = false;
  bool has_copies_ = false;               // between the host and a device with memory of its own
  std::vector<LateErrors*> late_errors_;  // of the devices that have some
  struct Source {
    std::string tensor;       // its name, quoted
    std::string send_device;  // empty: it is fed
    std::string ToString() const { return send_device.empty() ? tensor : tensor + " from " + send_device; }
  };
  absl::flat_hash_map<int, Source> sources_;  // of edges that are received here, but late results
  ReceivedEdges received_{{}};
  std::vector<LoopEdge> loop_edges_;  // of those
  int64_t step_bytes_ = 0;            // that a step takes before it has tensors

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<int64_t, std::unique_ptr<StepState>> active_ ABSL_GUARDED_BY(mutex_);  // by step id
  int num_early_ ABSL_GUARDED_BY(mutex_) = 0;  // of those, which have not started
  std::vector<std::unique_ptr<StepState>> pool_ ABSL_GUARDED_BY(mutex_);
  int64_t over_below_ ABSL_GUARDED_BY(mutex_) = INT64_MIN;
  std::deque<int64_t> over_order_ ABSL_GUARDED_BY(mutex_);  // not below
  absl::flat_hash_map<int64_t, absl::Status> over_
      ABSL_GUARDED_BY(mutex_);  // with the reason of an early cancel
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
