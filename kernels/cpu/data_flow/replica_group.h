// Where replicas that train in step with one another leave their gradients: one group on each task that holds
// variables, for all variables there.
//
// A replica joins, and then gives one contribution for each global step: a gradient of every variable. It
// waits until the step is released, and so does the next until it can read the new values. The chief's driver
// waits for the aggregate, which is there when enough replicas have contributed, applies it and releases the
// step. Nobody holds a thread while it waits.
//
// What counts: a replica is told the mark of the present step when it joins and when it has contributed, and
// reads variables after that. Its next contribution has the mark, and counts when it is still the group's and
// the replica has not given one yet. Other contributions are dropped, and their replicas are told the present
// mark. A contribution that comes while the step is being applied is late: it is dropped too, and its replica
// waits for the release.
//
// Several groups: a replica contributes to all of them at once. If they tell it different marks (it was told
// while a release went from one to the next), its next contributions have none, and are dropped everywhere.
// Otherwise one group could count a replica that another has dropped, and each wait for whom the other has. A
// group whose step is being applied still lets replicas join, and answers contributions of other steps at
// once: its driver may wait for another group, which needs that replica. What the replica reads then may be
// half updated, but does not count: a driver applies nothing before all groups have given it their means.
//
// How many are enough: `replicas_to_aggregate`, or all that may still come, if they are fewer. A replica that
// has left does not come. One that was lost does not come either (kShrink), is waited for (kWait), or ends
// the step of everybody (kFail). What a lost replica has contributed counts. One that never came is waited
// for.
//
// Elastic groups (min_replicas): replicas come and go. All that take part are waited for, up to
// `replicas_to_aggregate`, and nobody who has never come, but for the first min_replicas. One that comes
// takes part from its first contribution on, also if that is dropped: until then it may load its data, and
// nobody waits for that. One that has come to its end makes up for one of the min_replicas, until a rank
// comes that was not there before. Each group says for itself who takes part: where one comes or goes, the
// groups of several tasks may take the means of one step over different replicas.
//
// Who is there: a replica stays in a call that ends with its life (Stay). Its end, when the replica has not
// left before, is a loss. A rank that comes again has another life, and what the life before it still does
// counts no more.
//
// Nothing is saved: the chief resets a group when it has set the variables, also after a restart. Whoever
// waits in it then is told of the step that the chief has restored, and starts over; its contribution is
// dropped.
//
// Applied once: a driver that lost contact while it applied the means may have reached one group's variables
// and not another's. It numbers its updates, and asks again with the same number: each group gives the same
// means again, and the update ledger (session/executor/update_ledger.h) leaves out what was applied.
//
// Memory: kByRank one gradient of each variable for each rank, kArrival one; beside them the means of the
// last update.
//
// The end: when the chief closes its group, replicas stay no longer, and contributions are dropped at once.
//
// A replica that has come to its end (kFinish) contributes nothing: what it still gives is dropped at once.
// It stays until the group is closed, because the chief may be lost before it has saved the last steps: when
// the next one begins at an earlier step, the stay ends with Aborted, and the replica counts as lost. So it
// does when it says that it has finished only after that, and was not told of the earlier step.
//
// Pauses: while the chief saves, no step may be half applied. Its driver, of that rank, gets no new means
// from Pause to Resume. Of several groups one that gives none is enough: a driver applies nothing before all
// have given it their means, and releases no group before all is applied.
//
// One too many: unless a group is elastic there are at most num_replicas at a time. One more would be dropped
// in every step without a word. The highest rank of them is refused, whoever comes last: several groups, to
// which they come in different orders, refuse the same one, and it is not the chief. One that was lost or has
// left is not there.
//
// Errors of what waits: OutOfRange when the replica itself stops, of a contribution also when it has stopped
// before, and of what joins or aggregates when it ends or the group is closed; Cancelled when its step ends;
// Aborted when another life of the same rank has come, a group was reset under its driver, or the driver's
// replica had stopped before; FailedPrecondition after a loss with kFail, and of one that is too many.
//
// Thread safety: all methods. What waits keeps the group alive.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "graph/types/resource_handle.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/data_flow/gradient_sum.h"
#include "kernels/thread_pool.h"
#include "kernels/threads.h"

namespace weir {

class ReplicaGroup final : public Resource {
 public:
  static constexpr char kTypeName[] = "ReplicaGroup";

  enum class OnLoss { kShrink, kWait, kFail };
  // Why a replica leaves: it stops without an end (a loss), has come to its end but stays, has come to its
  // end, or ends training for all.
  enum class Leaving { kStop, kFinish, kEnd, kClose };

  struct Spec {
    std::string name;
    std::vector<GradientSum::Spec> gradients;
    int64_t num_replicas = 1;
    int64_t replicas_to_aggregate = 1;
    OnLoss on_loss = OnLoss::kShrink;
    int64_t min_replicas = 0;  // 0: the group is not elastic
  };
  struct Identity {
    int64_t rank = 0;
    int64_t life = 0;
    int64_t mark = 0;  // that its contribution is of; 0: none
  };
  // The step that waits. Borrowed until `done` is called; `threads` may be null outside of a step.
  struct Caller {
    Cancellation& cancellation;
    Allocator& allocator;
    ThreadPool& adding;
    Threads* threads = nullptr;
  };
  struct Answer {
    int64_t mark = 0;
    std::vector<StagedGradient> gradients;  // of an aggregate only
  };
  using Done = std::function<void(absl::StatusOr<Answer>)>;

  explicit ReplicaGroup(Spec spec);

  // Ends when the replica leaves, or another life of it comes. Its cancellation is a loss.
  void Stay(const Caller& caller, Identity identity, Done done);
  // Waits until this life stays and the chief has reset the group.
  void Join(const Caller& caller, Identity identity, Done done);
  // Waits until the step is over. InvalidArgument for gradients that do not fit.
  void Contribute(const Caller& caller, Identity identity, const std::vector<StagedGradient>& gradients,
                  Done done);
  // Waits for the means of enough gradients. The caller must apply them and release the step of this mark.
  // `update`: its number, from 1; the last one again gives the same.
  void Aggregate(const Caller& caller, Identity identity, int64_t update, Done done);
  // Aborted when the group was reset since the aggregate of that mark. Once more is OK.
  absl::Status Release(int64_t mark);
  void Leave(Identity identity, Leaving why);
  // FailedPrecondition while a step is being applied: it begins to pause all the same, and OK comes later.
  // Also of a replica that has stopped. It lasts until Resume, or until another life of the rank comes.
  absl::Status Pause(int64_t rank);
  void Resume(int64_t rank);
  // `life`: the chief's. The same in all groups.
  void Reset(int64_t life, int64_t global_step);
  // Whom the present step waits for, for people: "step 143 waits for the gradients of worker 1, which has
  // never come", or for the chief, who is to apply them. Empty while nobody waits, and of a group that is at
  // its end. The mark is that of the step. Before the first step: who was refused, if somebody was.
  struct Awaited {
    int64_t mark = 0;
    std::string text;
  };
  Awaited FindAwaited() const;

  // A replica of that rank has asked with another group (CheckIsA), and is told so: it ends as after a
  // mistake of its user, who may start it again. It is waited for as one that has not come, and named with
  // the reason until it comes.
  void NoteRefusal(int64_t rank, absl::string_view why);

  // A mark is made of the step and of the life of the chief that has begun; never 0.
  static int64_t MarkOf(int64_t chief_life, int64_t step);
  static int64_t StepOf(int64_t mark);

  const Spec& spec() const { return spec_; }
  // InvalidArgument unless it is the group that `spec` asks for.
  absl::Status CheckIsA(const Spec& spec) const;
  std::string ToString() const override;

 private:
  enum class Kind { kStay, kJoin, kContribute, kAggregate };
  struct Waiter {
    Waiter(Kind kind, const Caller& caller, Identity identity, Done done)
        : kind(kind), caller(caller), identity(identity), done(std::move(done)) {}

    const Kind kind;
    const Caller caller;
    const Identity identity;
    const Done done;
    std::vector<StagedGradient> gradients;  // until they are counted or dropped
    int64_t update = 0;                     // of an aggregate
    bool is_of_this_step = false;           // of a contribution: waits for the release
    bool is_over = false;
    uint64_t on_cancel = 0;
    absl::StatusOr<Answer> result = Answer();
  };
  using WaiterRef = std::shared_ptr<Waiter>;
  using Over = std::vector<WaiterRef>;
  enum class State { kPresent, kLeft, kLost };
  struct Taken {
    int64_t update = 0;  // 0: none
    Answer answer;
  };
  struct Replica {
    int64_t life = 0;
    State state = State::kPresent;
    int64_t told_step = 0;     // that it was told last
    int64_t end_step = 0;      // of one that has left: that of the group, or a later one that it was told
    bool has_stopped = false;  // it has said so
    bool is_paused = false;    // its driver
    bool takes_part = false;   // it has contributed
    bool is_followed = false;  // it has left, and another rank has come since
  };

  void Submit(WaiterRef waiter);
  void BeginStay(const WaiterRef& waiter, Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t HighestPresent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginAggregate(const WaiterRef& waiter, Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginContribution(const WaiterRef& waiter, Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const WaiterRef& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The replica of that rank, if it is in that life; else null.
  Replica* Find(Identity identity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NumRequired() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int64_t NumRequiredOfElastic() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Those whose gradients are not there and may come yet, and why they are not.
  std::vector<std::string> MissingReplicas() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> MissingReplicasOfElastic() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Answer> TakeAggregate(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends what need not wait any more.
  void Serve(Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsServedAtTheEnd(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsServed(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the waiters that `which` is true for.
  void EndAll(const std::function<bool(const Waiter&)>& which, const absl::StatusOr<Answer>& result,
              Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const Waiter& waiter, const absl::StatusOr<Answer>& result, Over* over)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status HasStopped(Identity identity);
  // Tells every replica that has contributed of the present step.
  void EndContributions(Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteLoss(int64_t rank, Replica& replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Replicas that have come to their end after this step count as lost, and stay no longer.
  void RecallFinished(int64_t step, Over* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCancel(const WaiterRef& waiter, const absl::Status& reason);
  void ServeAndFinish();
  static void Finish(const Over& over);
  // "worker 1, which was refused: ..."; empty when it was not, or has come since.
  std::string RefusalOf(int64_t rank) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> Refused() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);  // not all of many

  const Spec spec_;
  mutable absl::Mutex mutex_;
  std::vector<GradientSum> sums_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Replica> replicas_ ABSL_GUARDED_BY(mutex_);     // by rank
  std::map<int64_t, std::string> refused_ ABSL_GUARDED_BY(mutex_);  // why, by rank
  std::list<WaiterRef> waiters_ ABSL_GUARDED_BY(mutex_);
  int64_t chief_life_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t mark_ ABSL_GUARDED_BY(mutex_) = 0;               // 0: not reset yet
  std::set<int64_t> contributed_ ABSL_GUARDED_BY(mutex_);  // ranks, to this step
  bool is_being_applied_ ABSL_GUARDED_BY(mutex_) = false;  // the aggregate of this step was taken
  Taken taken_ ABSL_GUARDED_BY(mutex_);                    // by the last update
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_) = absl::OkStatus();  // why nobody waits any more
};

// "worker 2", "the chief".
std::string ReplicaName(int64_t rank);

}  // namespace weir
