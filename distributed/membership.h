// Who of the cluster is alive, from one task's point of view. Pure bookkeeping: no thread, no network;
// heartbeats.h feeds it.
//
// Every life of a task has an incarnation, a random number. A sign of life (any message or answer that
// carries task and incarnation) renews the peer's lease. A peer is lost when its lease runs out, or when it
// appears with a new incarnation: then its old life is over, is reported to the loss listeners, and its
// messages are refused from then on (fenced), however late they come; the new life is welcome.
//
// End of the job: training tasks say that they are done when they leave in good order. A ps may leave when no
// training task of the cluster is left that might still need it: every one is done, or some are done and the
// others lost. (All lost and nobody done: they may be restarted, so it waits.) A ps that is told to leave
// before that waits for those only that still run: they may be saving what it holds. So a task that ends
// without being done, and may be started again, says that it leaves.
//
// Guarantee: a life is reported as lost at most once, and never after it said that it was done. If this
// process was itself stopped for a while (suspended, starved), it gives everybody a new lease instead of
// declaring them all lost. Not guaranteed: that two tasks agree at any moment about a third.
//
// Thread safety: all methods. Listeners are called without any lock, on the thread that found the loss.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "kernels/environment.h"

namespace weir {

// As kernels/incarnation.h makes them: random, never 0.
using Incarnation = uint64_t;

struct MembershipOptions {
  TaskName self;
  ClusterSpec cluster;
  absl::Duration lease = absl::Seconds(10);
  Environment* environment = &RealEnvironment();  // borrowed
};

class Membership {
 public:
  enum class State { kUnknown, kAlive, kDone, kLost };
  using LossListener =
      std::function<void(const TaskName& task, Incarnation incarnation, const absl::Status& reason)>;

  explicit Membership(MembershipOptions options);

  const TaskName& self() const { return options_.self; }
  Environment& environment() const { return *options_.environment; }
  Incarnation incarnation() const;
  // A new life of this task, after others have fenced the old one.
  void Rejoin();

  // Before the first sign of life arrives.
  void AddLossListener(LossListener listener);

  // A sign of life. Possible errors: Aborted (the message is of a life that is over: fenced); InvalidArgument
  // (the cluster has no such task, or the incarnation is 0).
  absl::Status OnSignOfLife(const TaskName& task, Incarnation incarnation);

  // Whether a message meant for `incarnation` is for this life; 0 is for any. Aborted, saying that this task
  // restarted.
  absl::Status CheckAddressee(Incarnation incarnation) const;

  // The task leaves in good order. Same errors as OnSignOfLife.
  absl::Status OnDone(const TaskName& task, Incarnation incarnation);

  // The task is about to end and may come again. It counts as alive until its lease runs out, but is not
  // waited for after RequestLeave. Same errors as OnSignOfLife.
  absl::Status OnLeave(const TaskName& task, Incarnation incarnation);

  // Finds the leases that have run out. To be called several times per lease.
  void CheckLeases();

  State state(const TaskName& task) const;
  // Of the life last heard of; 0 for none.
  Incarnation incarnation_of(const TaskName& task) const;

  // True when the job has ended, false at the deadline, after StopWaiting, and when this task is to leave
  // (RequestLeave) and nobody runs any more.
  bool AwaitEndOfJob(absl::Time deadline);
  void StopWaiting();
  // This task is to leave when no training task runs any more, at that time at the latest.
  void RequestLeave(absl::Time deadline);
  // Training tasks that are alive and have not said that they leave, in order.
  std::vector<TaskName> RunningTasks() const;

 private:
  static constexpr size_t kRememberedLives = 256;
  struct Peer {
    State state = State::kUnknown;
    bool is_leaving = false;
    Incarnation incarnation = 0;
    absl::Time lease_end;
    std::deque<Incarnation> past;  // lives that are over, the last kRememberedLives
  };
  struct Loss {
    TaskName task;
    Incarnation incarnation;
    absl::Status reason;
  };

  absl::Status CheckSenderLocked(const TaskName& task, Incarnation incarnation, Peer** peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLifeLocked(const TaskName& task, Peer* peer, std::string why, std::vector<Loss>* losses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Renew(const TaskName& task, Incarnation incarnation, State state);
  bool HasEndedLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::vector<TaskName> RunningTasksLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Report(const std::vector<Loss>& losses);

  const MembershipOptions options_;
  mutable absl::Mutex mutex_;
  Incarnation incarnation_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskName, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::vector<LossListener> listeners_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_check_ ABSL_GUARDED_BY(mutex_);
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time leave_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // not infinite: to leave
};

}  // namespace weir
