// Exposes this task's LocalWorker to the others: the server side of RemoteWorker and TensorPusher.
//
// Membership sees every request first: a sender whose life is over is told that it was superseded, a request
// meant for an earlier life of this task gets Aborted. Plans and sessions belong to the life of the task that
// registered them and are dropped with it; the same session id of another sender, or of this task, is another
// session.
//
// Exactly once: a step's RunPartition may arrive several times (its sender repeats it when a connection
// breaks). The first one runs it, the others get the same answer: while it runs they wait with it, afterwards
// the answer is kept until a later RunPartition says that the step is over for its owner (of the last
// kKeptAnswers steps at most). Large results are not kept, and older steps are forgotten: their repetition is
// answered with Aborted and runs nothing (ids of steps increase). A repeated registration is answered without
// being done again, and so are pushes (tensor_inbox.h). A plan that its owner has deregistered is not
// registered again by a repetition: Aborted.
//
// Only its owner may run, cancel or deregister a plan: to others it is PermissionDenied. What an owner may
// have here is limited (peer_limits.h).
//
// Threads: requests are handled on the transport's threads, which also run kernels: in IncomingCall::Compute,
// so that heartbeats and cancellations get in however long those take. Thread safety: all methods. Borrows
// everything.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "distributed/membership.h"
#include "distributed/peer_limits.h"
#include "distributed/peers/inbound_budget.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/tensor_pusher.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/restorer.h"
#include "distributed/step_failures.h"
#include "distributed/tensor_inbox.h"
#include "distributed/transport/transport.h"
#include "distributed/worker_request.h"
#include "session/local_worker.h"

namespace weir {

class WorkerService {
 public:
  // `pusher`: what the worker sends through. `files`: what graphs of other tasks may read and write; null:
  // all files.
  WorkerService(LocalWorker& worker, const OpRegistry& ops, Membership& membership, Peers& peers,
                TensorPusher& pusher, std::shared_ptr<FileSystem> files = nullptr,
                const PeerLimits& limits = {});
  ~WorkerService();

  // Any method whose name begins with "/weir.Worker/"; Unimplemented for one that is not known.
  void Handle(std::shared_ptr<IncomingCall> call);

  // Pieces of tensors go straight into their tensor (PayloadPlacement).
  Payload Place(absl::string_view method, absl::string_view header, size_t index, size_t num_bytes);

  // Ends a step because a tensor of it was lost: here, and everywhere by its owner, who is in this process or
  // is told until it answers.
  void FailStep(PlanId plan, int64_t step_id, const absl::Status& reason);

  // Drops the plans and sessions of a life that is over, or done. What it was restoring is given up when a
  // later life of the task is known.
  void OnLoss(const TaskName& task, Incarnation incarnation, const absl::Status& reason);

  // What other tasks have here, and on its way.
  const PeerUse& use() const { return use_; }
  const InboundBudget& inbound() const { return inbox_.budget(); }
  int num_plans() const;
  // Set aside for tensors that have not come whole.
  int64_t num_unfinished_bytes() const { return inbox_.num_unfinished_bytes(); }

 private:
  struct Step;
  // What the tensors of a plan's graphs take of its owner's limit.
  struct TensorShares {
    std::vector<PeerUse::Share> of_graphs;
    int64_t num_bytes = 0;
  };
  struct Plan {
    TaskName owner;
    Incarnation owner_incarnation = 0;
    int num_args = 0;
    int num_results = 0;
    PeerUse::Share share;
    TensorShares tensors;
    absl::flat_hash_map<int64_t, std::shared_ptr<Step>> steps;
    std::deque<int64_t> finished;  // whose answers are kept, oldest first
    int64_t newest_forgotten = INT64_MIN;
    int64_t over_below = INT64_MIN;
  };
  struct Owner {
    TaskName task;
    PeerUse::Share share;
  };
  static constexpr size_t kKeptAnswers = 1024;
  static constexpr size_t kMaxKeptBytes = 4 << 10;
  static constexpr size_t kRememberedPlans = 256;
  static constexpr size_t kMaxWaiting = 64;  // repetitions of one request

  absl::Status Admit(const Envelope& envelope);
  void Reply(const WorkerRequest& request, const absl::Status& status, std::string body = "",
             std::vector<Payload> payloads = {});

  void ListDevices(WorkerRequest& request);
  void RegisterPartition(WorkerRequest& request);
  void RunPartition(WorkerRequest& request);
  void CancelStep(WorkerRequest& request);
  void FailOwnStep(WorkerRequest& request);
  void DeregisterPartition(WorkerRequest& request);
  void EndSession(WorkerRequest& request);
  void BeginRestore(WorkerRequest& request);
  void EndRestore(WorkerRequest& request);
  void ResetContainers(WorkerRequest& request);

  // PermissionDenied for another task than the owner of the plan, or another life of it. OK for a plan that
  // no task has here: it is unknown, or of a session of this task itself, which others have no part in.
  absl::Status CheckOwner(const Envelope& envelope, PlanId plan) const;
  // Whether a plan that has been compiled is not wanted any more: its owner is lost, or has deregistered it
  // meanwhile.
  bool IsOrphan(const Envelope& owner, PlanId plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the task that restored last, when a later life of it is known.
  void GiveUpRestoreOfEarlierLife();
  bool IsDeregistered(const std::pair<Incarnation, PlanId>& plan) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Before the tensors of one of its graphs are made: a message of a few bytes may ask for much memory.
  absl::Status TakeTensors(const Envelope& owner, PlanId plan, int64_t num_bytes, TensorShares* taken);
  // What else a new plan takes of its owner's limits, and its session, if it is the first of it.
  absl::Status TakePlan(const WorkerRequest& request, const PartitionSpec& spec, int64_t tensor_bytes,
                        PeerUse::Share* plan, PeerUse::Share* session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps the answer of a step that is over, if it is a step of this plan, for as long as its owner may ask
  // again.
  void KeepAnswer(Plan& plan, int64_t step_id, const std::shared_ptr<Step>& step,
                  std::shared_ptr<Step>* forgotten) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void ForgetAnswers(Plan& plan, int64_t over_below, std::vector<std::shared_ptr<Step>>* forgotten);

  // The kept answer of a step that is over; an empty frame when one is to come. `step` is set when this is
  // the first request of its step, which is then to be run. Aborted for an unknown plan; InvalidArgument when
  // arguments or results are not as many as the plan has.
  absl::StatusOr<Frame> BeginStep(const WorkerRequest& request, const RunRequest& run,
                                  std::shared_ptr<Step>* step);
  void RunStep(const std::shared_ptr<Step>& step);
  // The tensors that came with the request.
  absl::Status DeliverFirst(Step& step);
  // For a step that waits for its turn: the worker does not know it yet.
  void CancelBeforeItBegins(const CancelRequest& cancel);
  void OnStepDone(PlanId plan, int64_t step_id, const std::shared_ptr<Step>& step,
                  const absl::Status& status);
  Frame MakeReply(const absl::Status& status, std::string body = "",
                  std::vector<Payload> payloads = {}) const;
  bool HasPlan(PlanId plan) const;

  LocalWorker& worker_;
  const OpRegistry& ops_;
  Membership& membership_;
  Peers& peers_;
  TensorPusher& pusher_;
  const std::shared_ptr<FileSystem> files_;
  PeerUse use_;
  TensorInbox inbox_;
  StepFailures failures_;
  Restorer restorer_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PlanId, Plan> plans_ ABSL_GUARDED_BY(mutex_);
  // Sessions that have, or have had, plans here, each with the life of the task that runs it.
  absl::flat_hash_map<std::pair<SessionId, Incarnation>, Owner> sessions_ ABSL_GUARDED_BY(mutex_);
  // Plans that are being compiled: who asked, and waits for the one answer.
  absl::flat_hash_map<std::pair<Incarnation, PlanId>, std::vector<std::shared_ptr<IncomingCall>>> registering_
      ABSL_GUARDED_BY(mutex_);
  // The last kRememberedPlans that were deregistered: their registration may still come, or come again.
  std::deque<std::pair<Incarnation, PlanId>> deregistered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
