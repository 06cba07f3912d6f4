// Who of the cluster is alive, from one task's point of view. Pure bookkeeping: no thread, no network;
// heartbeats.h and membership_service.h feed it, authority.h grants lives.
//
// Every process that is a task has a life, a number that is greater for later ones (life.h). One task, the
// authority, keeps a lease for each of the others, which their heartbeats renew, and says in views (view.h)
// who is alive, done or lost. The others believe its views, and besides what they hear themselves: a message
// of a task in a greater life than the known one ends the known one for good, and a task that the views do
// not list as alive, but that is heard, is alive for a lease. Of the authority itself each task judges: it is
// lost when nothing was heard of it for a lease. That says nothing about anybody else.
//
// A loss is reported to the loss listeners, once. A task that was only silent is alive again when it is heard
// in the same life; when a later life of it is heard instead, the earlier one is reported again, for then it
// is over for good. Messages of a life that is over are refused (fenced), whether they come late or its
// process still runs. When it is the authority that refuses it, that process is superseded, and ends.
//
// A task that gets no answer from the authority stops before the authority declares it lost: it begins no
// step with a part on another task when 0.8 leases have passed since it sent the last heartbeat that was
// answered (HoldsLease).
//
// Which task the authority is, the cluster spec says, or an election (election.h). One that is elected is in
// office: its views are of the office, a number as a life is, and greater than those of all offices before.
// An office ends at a time, unless the election extends it: after that the task lets nobody in, and answers
// nobody, whatever it may still believe. Who takes office knows what the views before have said, gives
// everybody a new lease, and gathers.
//
// Guests (guests.h) are tasks that the cluster spec does not name. The authority lets them in, and views tell
// the others of them, with their addresses. They are members as the others are, but nobody waits for one that
// is not there: the end of the job waits for those only that live. A message of a guest may be faster than
// the view that tells of it: then it is to come again (MayBeGuest).
//
// A worker that was told to stop and says so (OnLeave) has left a lease later. That is no loss, but its life
// is over as if it were one: the loss listeners are told.
//
// End of the job: training tasks say that they are done when they leave in good order. A ps may leave when no
// training task of the cluster is left that might still need it: every one is done, or the chief is done and
// the others are done or lost. A chief that is lost is waited for, though all others are done: it may only
// have been stopped, and nobody else saves what the ps holds; after chief_grace it is given up. (All lost and
// nobody done: they may be restarted, so it waits.) A ps that is told to leave
// before that waits for those only that still run: they may be saving what it holds. So a task that ends
// without being done, and may be started again, says that it leaves.
//
// That a task is done it says itself, or others do, of one that was not heard since the authority was started
// (OnReportedDone). Views say which. What only others say is over when the task is heard in the same life.
//
// Guarantee: after a life has been refused because of a greater one it is never heard again, and a life is
// not reported as lost after it said that it was done. If this process was itself stopped for a while
// (suspended, starved), it gives everybody a new lease instead of declaring them all lost. Views are applied
// in their order. Not guaranteed: that two tasks agree at any moment about a third.
//
// Thread safety: all methods. Listeners are called without any lock, on the thread that found the loss.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/end_of_job.h"
#include "distributed/guests.h"
#include "distributed/known_task.h"
#include "distributed/life.h"
#include "distributed/places.h"
#include "distributed/view.h"
#include "kernels/environment.h"

namespace weir {

// The task that grants lives: the first ps, the chief where there is none (master, worker 0), otherwise the
// first task.
TaskName AuthorityOf(const ClusterSpec& cluster);

struct MembershipOptions {
  TaskName self;
  ClusterSpec cluster;
  absl::Duration lease = absl::Seconds(10);
  Environment* environment = &RealEnvironment();  // borrowed
  absl::Duration chief_grace = absl::Minutes(10);
  // Of the authority: guests are let in while fewer training tasks than this have a place, which those of the
  // cluster spec have until they are done or lost. 0: none are let in.
  int max_workers = 0;
  // Each task can only speak for itself (SecurityOptions::tls_task_names). Then a task that says that the
  // authority's own task has a later life does not end the authority: that is looked for where it would be.
  bool names_are_proven = false;
  // An election says which task the authority is (SetAuthority, TakeOffice): nobody is at first.
  bool is_elected = false;
};

class Membership {
 public:
  using State = MemberState;
  // Also told of a life that was lost before and heard again since.
  using LossListener =
      std::function<void(const TaskName& task, Incarnation incarnation, const absl::Status& reason)>;

  explicit Membership(MembershipOptions options);

  const TaskName& self() const { return options_.self; }
  const ClusterSpec& cluster() const { return options_.cluster; }
  Environment& environment() const { return *options_.environment; }
  // Without a name when none is elected yet.
  TaskName authority() const;
  bool is_authority() const { return is_authority_; }
  bool is_elected() const { return options_.is_elected; }
  // Of the authority: whether its office has not ended. True where there is no election.
  bool HoldsOffice() const;
  // Of whose views there are: the authority's life, or, of one that was elected, its office.
  Incarnation office() const;
  // Elected: this task is the authority from now on, until that time (SteadyNow). A process that has no life
  // takes the office for it. Ignored when a later office is known.
  void TakeOffice(Incarnation office, absl::Time until);
  void ExtendOffice(absl::Time until);
  // It is not any more.
  void LeaveOffice();
  // Another task is, in that office. Ignored when the same or a later one is known.
  void SetAuthority(const TaskName& task, Incarnation office);
  // Told when this task takes or leaves the office, on the thread that says so. Before the first; null:
  // nobody.
  void SetOfficeListener(std::function<void(bool is_authority)> listener);
  // Whether a heartbeat was answered that was sent since then.
  bool WasAnsweredSince(absl::Time time) const;
  absl::Duration lease() const { return options_.lease; }
  bool names_are_proven() const { return options_.names_are_proven; }
  // Of the authority: whether what others say of lives of its own task makes it take a greater one. Where
  // names are proven only while it gathers, which those need whose clock was ahead.
  bool TakesOthersWord() const;
  // Of the authority: whether it was started, or took office, so lately that tasks may live of which it has
  // not heard.
  bool IsGathering() const;
  // Of this process; 0 until the authority has granted it. The authority itself, and a process that runs
  // alone, have one from the start.
  Incarnation incarnation() const;
  void SetIncarnation(Incarnation life);
  // Of the authority: a life that it grants, or that its holder reports.
  void OnGranted(Incarnation life);
  // Of the authority, before it grants a life: whether the task may have one. A guest is let in here, if
  // there is a place for it (places.h); one that holds a life has its place. InvalidArgument: no such task,
  // and it cannot be a guest, or another one is at its address. ResourceExhausted: there is no place free, or
  // this authority still gathers, and does not know whose places there are.
  absl::Status AdmitTask(const TaskName& task, Incarnation held, const std::string& address);
  // The same as OnGranted; a guest that takes that life is at the address.
  void OnGranted(const TaskName& task, Incarnation life, const std::string& address);
  // A guest that lives says where it is.
  void OnAddress(const TaskName& task, Incarnation life, const std::string& address);
  // Since this process was started, or began to take part.
  absl::Duration age() const { return options_.environment->SteadyNow() - started_; }
  // The greatest of all lives heard of.
  Incarnation highest_known() const;

  // Another process has this task's place: `who` knows of its life. Told to the listeners once; calls and
  // steps then end with superseded(), for good.
  void Supersede(Incarnation by, const TaskName& who);
  // This process cannot be a task of the cluster: the authority refuses it for good. It ends as one that was
  // superseded does, with that error.
  void GiveUp(const absl::Status& why);
  // OK, or the error that ends this process; IsSuperseded (exit_code.h) knows whether a later one has its
  // place.
  absl::Status superseded() const;
  // What the process is told that has that life of the task (0: none yet), when a later one has the place.
  absl::Status SupersededBy(const TaskName& task, Incarnation life, Incarnation later) const;
  // The same where the later life is not known.
  absl::Status SupersededFor(const TaskName& task, Incarnation life, absl::string_view why) const;
  using SupersededListener = std::function<void(const absl::Status& why)>;
  // Before the first message arrives.
  void AddSupersededListener(SupersededListener listener);
  // What a peer replied to this task: when it says that this life was superseded, so it is.
  void OnReplyStatus(const absl::Status& status);

  // Before the first sign of life arrives.
  void AddLossListener(LossListener listener);
  // Told of each life that says, or of which a view says, that it is done.
  using DoneListener = std::function<void(const TaskName& task, Incarnation incarnation)>;
  void AddDoneListener(DoneListener listener);

  // A sign of life. Possible errors: FailedPrecondition, for which IsSuperseded (exit_code.h) holds (a
  // greater life of the task has been heard of: fenced); InvalidArgument (the cluster has no such task, or
  // the incarnation is 0, or one that no authority grants).
  absl::Status OnSignOfLife(const TaskName& task, Incarnation incarnation);

  // Whether a message meant for `incarnation` is for this life; 0 is for any. Aborted, saying that this task
  // restarted, or that this process is an older one.
  absl::Status CheckAddressee(Incarnation incarnation) const;

  // Both, for a message from another task: whether it may be looked at. `last_loss`: of the sender.
  absl::Status Admit(const TaskName& sender, Incarnation life, Incarnation addressee,
                     const ViewNumber& last_loss = {});

  // Whether a sender that Admit refuses, because it does not know it, may be a guest of which a view is on
  // its way; then that view is asked for. Its message should come again.
  bool MayBeGuest(const absl::Status& refusal, const TaskName& sender, const ViewNumber& last_loss) const;

  // Evidence that this life of the task is over: its process was looked for and is not there.
  void OnGone(const TaskName& task, Incarnation incarnation, absl::string_view why);

  // The task leaves in good order. Same errors as OnSignOfLife.
  absl::Status OnDone(const TaskName& task, Incarnation incarnation);

  // Of an authority that was started again: `from` says that another task was done in that life. It is
  // believed of a training task that was not heard here, and, if it is said while this authority gathers, of
  // one that was lost in that life, or is lost soon: it may be telling the others just now, for a lease and
  // kLongestEnd at most. It ends nobody: a task that is heard itself, in whatever life, is alive, and was not
  // done if it had been silent for a lease. Where names are proven a task other than a ps is believed only
  // while this authority gathers, of tasks that were not heard here.
  void OnReportedDone(const TaskName& from, const TaskName& task, Incarnation life);
  static constexpr absl::Duration kLongestEnd = absl::Seconds(30);

  // The task is about to end and may come again. It counts as alive until its lease runs out, but is not
  // waited for after RequestLeave. A worker that has not failed and is not the chief has left then; others
  // are lost. `failure`: what its program has failed with, if it has; the reason of its loss then, at most
  // kMaxFailureText of it. Same errors as OnSignOfLife.
  absl::Status OnLeave(const TaskName& task, Incarnation incarnation, absl::string_view failure = "");
  static constexpr size_t kMaxFailureText = 1000;

  // Finds the leases that have run out. To be called several times per lease.
  void CheckLeases();

  // The view of this task; the authority's own is the newest.
  ViewNumber view() const;
  // The newest view known that must not wait, because somebody was lost: every message carries its number.
  ViewNumber last_loss() const;
  // Of the authority: what has changed since that view. No view of one that was elected and has left office.
  View ViewSince(const ViewNumber& known) const;
  // Whether ViewSince has something that should not wait.
  bool HasNewsFor(const ViewNumber& known) const;
  // Of the others. A view that is older than the present one, or of an authority that is over, or that skips
  // a change, is ignored. Elected: `issuer`, which answered in a later office than is known, is the authority
  // in that office.
  void ApplyView(const View& view, const TaskName& issuer);
  // Of the authority: called when somebody was lost. One listener; null for none.
  void SetViewListener(std::function<void()> listener);
  // Of the others: when a message has shown that a view with a loss is to be had. One listener; null for
  // none.
  void SetNewsListener(std::function<void()> listener);
  // Of the authority, which is about to leave in good order: a view that does not wait either. A training
  // task says in it that it is done itself.
  void IssueLastView();
  // Training tasks and lives that are known to be done: an authority that was restarted asks for them.
  std::vector<std::pair<TaskName, Incarnation>> DoneLives() const;

  // The authority has answered a heartbeat that was sent at that time (SteadyNow).
  void OnHeartbeatAnswered(absl::Time sent);
  // Whether this task may begin steps: see above. Always true of the authority, and after it has left.
  bool HoldsLease() const;

  // Tasks of the cluster spec, and guests that are known, in order.
  std::vector<TaskName> tasks() const;
  // Whether it is a task of the cluster spec, or a guest that is known.
  bool Knows(const TaskName& task) const;
  // Whether the cluster spec names it.
  bool IsSeed(const TaskName& task) const;
  // Where a guest is; empty of other tasks, Guests::kNowhere of one that is not to be looked for: it is done,
  // has left, or was lost for so long that somebody else may be there (places.h).
  std::string AddressOfGuest(const TaskName& task) const;
  State state(const TaskName& task) const;
  // That may only be silent, in order: not a guest that was lost for long.
  std::vector<TaskName> LostTasks() const;
  // The other ps that are alive, in order.
  std::vector<TaskName> AliveServers() const;
  // Whether it has said that it is about to end.
  bool is_leaving(const TaskName& task) const;
  // Of the life last heard of; 0 for none.
  Incarnation incarnation_of(const TaskName& task) const;
  // Whether it is alive, in the life of this number.
  bool IsAlive(const TaskName& task, Incarnation life) const;
  // Why that life of the task is lost, over, or has left; OK when none of it is known.
  absl::Status LossOf(const TaskName& task, Incarnation life) const;
  // When something came from the task itself; the infinite past for never.
  absl::Time last_heard(const TaskName& task) const;

  // True when the job has ended, false at the deadline, after StopWaiting, when this process was superseded,
  // and when this task is to leave (RequestLeave) and nobody runs any more.
  bool AwaitEndOfJob(absl::Time deadline);
  // Whether AwaitEndOfJob has something to wait for.
  bool is_serving() const;
  // Who alone keeps the job from its end, since when and how long still: "worker:0, the chief, lost 12s ago
  // (it is given up in 9m48s)"; empty while others train, or nobody is done.
  std::string DescribeAwaitedChief() const;
  void StopWaiting();
  // This task is to leave when no training task runs any more, at that time at the latest.
  void RequestLeave(absl::Time deadline);
  // Training tasks that are alive and have not said that they leave, in order.
  std::vector<TaskName> RunningTasks() const;

 private:
  struct Loss {
    TaskName task;
    Incarnation incarnation;
    absl::Status reason;
  };

  absl::Status CheckSenderLocked(const TaskName& task, Incarnation incarnation, KnownTask** peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `state`: kLost, or kLeft.
  void EndLifeLocked(const TaskName& task, KnownTask* peer, State state, std::string why,
                     std::vector<Loss>* losses) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, because a later one has begun.
  void EndEarlierLifeLocked(const TaskName& task, KnownTask* peer, std::vector<Loss>* losses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its process is silent, or gone.
  void LoseLocked(const TaskName& task, KnownTask* peer, std::string why, std::vector<Loss>* losses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Renew(const TaskName& task, Incarnation incarnation, State state);
  absl::Status AdmitGuestLocked(const TaskName& task, Incarnation held, const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When so many guests are known that one more is one too many: forgets one that has ended.
  void MakeRoomForLocked(const TaskName& guest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Places PlacesLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  EndOfJob EndLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Whether tasks of the cluster spec that have not come may still be starting.
  bool StartsLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Of the authority: what the peer is now belongs to the next view.
  void NoteChangeLocked(KnownTask* peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyMemberLocked(const Member& member, Incarnation authority, std::vector<Loss>* losses,
                         std::vector<Loss>* done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether this task judges by its own lease that the peer is lost.
  bool JudgesLocked(const TaskName& task, const KnownTask& peer) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool HoldsLeaseLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool HasNewsForLocked(const ViewNumber& known) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // `office` is later than the one that is known.
  void FollowLocked(const TaskName& task, Incarnation office) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Incarnation OfficeLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void TellOffice(bool is_authority) const;
  void TellNews() const;
  // Those who wait for the next view.
  void TellWatchers() const;
  void Report(const std::vector<Loss>& losses);
  void ReportDone(const std::vector<Loss>& done) const;

  const MembershipOptions options_;
  const TaskName chief_;
  const absl::Time started_;
  mutable absl::Mutex mutex_;
  TaskName authority_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> is_authority_;                  // changed with the lock held
  Incarnation office_ ABSL_GUARDED_BY(mutex_) = 0;  // elected: the latest that is known
  absl::Time office_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::function<void(bool)> office_listener_ ABSL_GUARDED_BY(mutex_);
  Incarnation incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  Incarnation granted_ ABSL_GUARDED_BY(mutex_) = 0;  // of the authority: the greatest
  absl::Status superseded_ ABSL_GUARDED_BY(mutex_);
  std::vector<SupersededListener> superseded_listeners_ ABSL_GUARDED_BY(mutex_);
  KnownTasks peers_ ABSL_GUARDED_BY(mutex_);
  Guests guests_ ABSL_GUARDED_BY(mutex_);
  std::vector<LossListener> listeners_ ABSL_GUARDED_BY(mutex_);
  std::vector<DoneListener> done_listeners_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> view_listener_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> news_listener_ ABSL_GUARDED_BY(mutex_);
  ViewNumber view_ ABSL_GUARDED_BY(mutex_);  // of the authority: only the number counts
  uint64_t last_loss_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_settled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time gathers_from_ ABSL_GUARDED_BY(mutex_);
  absl::Time answered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // sent then
  absl::Time last_check_ ABSL_GUARDED_BY(mutex_);
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time leave_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // not infinite: to leave
};

}  // namespace weir
