// The worker of this process: compiles partitions into programs and runs them on the runtime's step threads
// and on those of callers.
//
// A step has one activation per device. They overlap where their measured times say that a wake-up pays: the
// first runs on the calling thread, and so does each one that nobody has begun when that thread is free. A
// step of one device in which nothing waits runs within RunPartition, unless the caller is in a RunScope:
// then at the scope's end, so that the caller can make the step known to who may cancel it.
//
// Borrows the Runtime, the TensorSender and the Threads, which must outlive it. Thread safety: all methods.
// Lifetime: destroying it cancels every running step and waits until none is left.
//
// Progress: a step whose RunPartition was called ends, by itself or by its deadline, which the worker watches
// (one timer per step that waits), by CancelStep or with its plan: as soon as those of its kernels that have
// begun return or call back. No method waits for a tensor, another step or another machine. RunPartition,
// CancelStep and Receive may compute before they return what they have made runnable, unless they are called
// from within a running step or a RunScope of the caller (so that all tensors of a message are delivered
// before any of what waited for them runs).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/session_state.h"
#include "session/executor/update_ledger.h"
#include "session/runtime.h"
#include "session/step_owners.h"
#include "session/tensor_sender.h"
#include "session/worker.h"

namespace weir {

class EarlySteps;
class FunctionRunner;
class LocalPlan;

class LocalWorker final : public Worker {
 public:
  // `sender` may be null: then a tensor for another task is an error of the step. `threads` null: the
  // runtime's.
  LocalWorker(Runtime& runtime, DeviceName task, TensorSender* sender = nullptr, Threads* threads = nullptr);
  ~LocalWorker() override;

  const DeviceName& task() const override { return task_; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override;
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    return RegisterPartition(std::move(spec), deadline, kThisProcess);
  }
  void RunPartition(const RunPartitionCall& call, Done done) override;
  absl::Status FeedStep(PlanId plan, int64_t step_id, int arg, const Tensor& tensor) override;
  void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) override;
  void DeregisterPartition(PlanId plan) override;
  void EndSession(SessionId session) override { EndSession(session, kThisProcess); }
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override;
  absl::Status BeginRestore(uint64_t id, absl::Time) override {
    BeginRestore(id, kThisProcess);
    return absl::OkStatus();
  }
  absl::Status EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) override;
  std::string AppliedUpdates() override {
    return ledger_.Capture([] {});
  }
  StepOwners* owners() override { return &owners_; }

  // As above, for another process: `owner` is the incarnation of its task. Every part of a plan names its
  // session, so an id is no secret: what an owner's session keeps, and the files that it may use, are not
  // those of another owner's session of that id. PermissionDenied for other files than the session has.
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline, uint64_t owner);
  void EndSession(SessionId session, uint64_t owner);
  // Waits for the updates that are just applied. A restore is given up when a later life has its owner's
  // place.
  void BeginRestore(uint64_t id, uint64_t owner) { ledger_.BeginRestore(id, owner); }
  void GiveUpRestore(uint64_t owner) { ledger_.GiveUpRestore(owner); }

  // DeregisterPartition for another reason than its owner's wish: its running steps end with `reason`.
  void DropPartition(PlanId plan, const absl::Status& reason);

  // A tensor that another worker has pushed, with its turn (received_edges.h). Accepted also before the
  // step's RunPartition. NotFound for an unknown plan; OK and dropped for a step that is over.
  // InvalidArgument (an edge that is not received here, or not in that turn); ResourceExhausted (too many
  // steps have not started: early_steps.h; too many tensors of an edge in a loop wait: rendezvous.h).
  // `sender`: the task that has sent it, "/job:worker/replica:0/task:1"; PermissionDenied when that edge
  // comes from another one. Empty: this process.
  absl::Status Receive(PlanId plan, int64_t step_id, int edge, int64_t turn, const Tensor& tensor,
                       bool is_dead, absl::string_view sender = "");
  // That alone. NotFound for an unknown plan.
  absl::Status CheckSender(PlanId plan, int edge, absl::string_view sender) const;

  // For a tensor that comes in pieces: holds what there is of it until its step is over, however it ends; of
  // an edge in a loop only until the tensor has been received. Accepted also before the step's RunPartition.
  // False, and not held, when the step is over. NotFound for an unknown plan; InvalidArgument and
  // ResourceExhausted as Receive.
  absl::StatusOr<bool> Hold(PlanId plan, int64_t step_id, int edge, int64_t turn, std::shared_ptr<void> held);

  int num_plans() const;
  int num_sessions() const;
  int num_running_steps() const;
  int num_idle_steps() const;  // kept for reuse
  // What steps take that have tensors here and have not started, without the tensors.
  int64_t num_early_bytes() const;
  // A line for each activation that waits: its device and nodes, and the edges that have not come. For tests
  // and debugging. Precondition: no thread runs a step.
  std::string DescribeWaits() const;

 private:
  static constexpr uint64_t kThisProcess = 0;  // no task's incarnation

  std::shared_ptr<LocalPlan> FindPlan(PlanId id) const;
  absl::StatusOr<std::shared_ptr<SessionState>> StateOf(SessionId session, uint64_t owner,
                                                        const std::shared_ptr<FileSystem>& files);

  Runtime& runtime_;
  const DeviceName task_;
  TensorSender* const sender_;
  Threads& threads_;
  const std::shared_ptr<EarlySteps> early_steps_;
  const std::shared_ptr<FunctionRunner> functions_;
  StepOwners owners_;
  UpdateLedger ledger_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PlanId, std::shared_ptr<LocalPlan>> plans_ ABSL_GUARDED_BY(mutex_);
  // Those that go when their last steps have ended.
  std::vector<std::weak_ptr<LocalPlan>> dropped_ ABSL_GUARDED_BY(mutex_);
  // By id and owner.
  absl::flat_hash_map<std::pair<SessionId, uint64_t>, std::shared_ptr<SessionState>> sessions_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
