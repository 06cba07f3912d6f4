// Grants lives: which process is a task now, and which were before it.
//
// A life (also: incarnation) is a number, `term << 24 | serial`. Later lives of a task are greater, so
// whoever meets two of them knows which one is over, in whatever order they are met. One task of the cluster,
// the authority, grants them all (AuthorityOf). A task asks when it starts and again with every heartbeat: to
// one that holds a life the answer is that life, to one that holds none it is a new one, above all that the
// authority has granted or heard of. What was granted is remembered for two heartbeats only: who asks and
// dies leaves no trace, and a request that comes late grants a life that nobody takes. A task never takes a
// second life.
//
// Of two processes that both run, the one that was started later is the task. It is the one that joined
// later, unless the other was stopped before it could join; so each says how long ago it was started, and an
// older one than the task's present process is refused, and has to ask again while a younger one that was
// just granted a life has not been heard of in it. (Differences of its own clock, so clocks need not
// agree.) A message that was late makes its process seem younger than it is, by as long as the authority was
// stopped. So who seems to be the older one has to ask again until the other has been heard for a lease,
// after which its start is known well; or is lost before that, and gone. Servers of one process are no such
// two.
//
// An authority that was started, or took office, later than the process that asks does not know whether
// another process has replaced it; nor does one that knows of another process that was started at about the
// same time, or later. Then the process that answers at the task's address is asked first (MayBeReplaced;
// membership_service.h does it). So is it where the process that asks says that it is at another address than
// the task's, while the task is alive: nobody would find it, so it may not end the one that is found.
//
// One that holds a life which an authority before this one has granted may have been replaced too, and its
// successor have ended since, so that nobody is left who knows it. It keeps its life at first, and is looked
// for at its address (BeginLook). When for a lease it was another process that answered there, or nobody
// listened, in looks less than a lease apart, it is superseded: nobody else would reach it.
//
// The term is the authority's clock when it started, raised above the term of every life that is reported to
// it, or that it has met; so an authority that restarts, even with a clock that is behind, grants greater
// lives than the one before. Whoever held a life keeps it. What it has granted before it heard of those,
// while it gathers, may be too low: others who know an earlier process of the task in a greater life take its
// successor's messages for those of a process that is over. So whoever was granted such a life is given
// another one with its next heartbeat, as if it had been started again; it has just joined. An authority that
// was only stopped while another process took its place finds out from a task that it knows and that knows
// its successor: it is superseded. (Where names are proven, when its successor answers at its address:
// membership_service.h.)
//
// Where an election says which task the authority is (election.h), the term is that of its office, which is
// greater than those of all before; that another one is the authority by now it learns from the election. It
// grants no life to who knows of a later term: another one is in office, or the election raises its own term.
//
// Pure bookkeeping. Thread safety: all methods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/membership.h"

namespace weir {

struct JoinRequest {
  TaskName task;
  Incarnation held = 0;             // 0: none yet
  Incarnation highest_known = 0;    // of any task
  Incarnation known_authority = 0;  // of the authority's own task
  absl::Duration age;               // since the process that asks was started
  uint64_t process = 0;             // which it is; 0: not known
  std::string address;              // where it says that it is; of a guest, that is where it is looked for
};

class Authority {
 public:
  // For the task that AuthorityOf names. Borrows.
  explicit Authority(Membership& membership);

  // The life of who asks: `held`, or a new one, also for one that holds a life that was granted too low.
  // Possible errors: that of Membership::OnSignOfLife (superseded
  // by a later life of the task), of Membership::AdmitTask (no such task, and no place for a guest);
  // InvalidArgument for a life beyond what clocks can show;
  // Unavailable when this authority was superseded itself, its office has ended, or is not the latest, a
  // younger process of the task has just asked, or another one that is probably younger is there.
  absl::StatusOr<Incarnation> Join(const JoinRequest& request);

  // Whether another process may have replaced the one that asks, so that its address has to tell.
  bool MayBeReplaced(const JoinRequest& request);
  // Of one that is not at its address: an error of Join, or OK when this authority has met nobody who has
  // replaced it. Superseded too when the task is done.
  absl::Status CheckReplaced(const JoinRequest& request);

  // Whether the process that was just let in with the life that it held is to be looked for at its address;
  // one look at a time. Each ends with EndLook.
  bool BeginLook(const JoinRequest& request);
  enum class Found { kIt, kAnother, kNobody, kUnknown };
  void EndLook(const JoinRequest& request, Found found);

 private:
  bool IsSucceeded(const JoinRequest& request);
  // A life above it cannot have been granted.
  Incarnation LastPossible();

  Membership& membership_;
  absl::Mutex mutex_;
  Incarnation last_ ABSL_GUARDED_BY(mutex_);         // at or above all that were granted or reported
  Incarnation too_low_ ABSL_GUARDED_BY(mutex_) = 0;  // the last one granted too low
  // A process that has a life.
  struct Holder {
    Incarnation life = 0;
    absl::Time started = absl::InfinitePast();  // the earliest that was heard of
    uint64_t process = 0;                       // which it is; 0: not known
    absl::Time since = absl::InfinitePast();
    absl::Time heard = absl::InfinitePast();  // last, with its age
    bool is_granted = false;                  // by this authority
  };
  struct Place {
    Holder holder;
    // The last process that was granted a life; it shows it with its next message.
    Holder promised;
    absl::Time promised_until = absl::InfinitePast();
    // The holder came with its life, and has not answered at its address yet.
    bool is_sought = false;
    bool is_being_looked_for = false;
    absl::Time missed_since = absl::InfiniteFuture();  // not found there, by look after look
    absl::Time last_missed = absl::InfinitePast();     // the last of these

    absl::Time last_started() const { return std::max(holder.started, promised.started); }
    bool IsOf(uint64_t process) const {
      return process != 0 && (process == holder.process || process == promised.process);
    }
  };
  // Whether it was granted its life before this authority heard of greater ones.
  bool IsTooLow(const Holder& holder) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on above lives that the request knows, and those that were heard otherwise.
  void RaiseAbove(const JoinRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets what was before, if the office is another one than when it was last asked.
  void NoteOffice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a process that has no life yet, and was started then, may have the place.
  absl::Status CheckYoungest(const JoinRequest& request, absl::Time started, const Place& place) const;
  // Whether the holder of a life may keep it.
  absl::Status CheckFound(const JoinRequest& request, const Place& place) const;
  bool IsLookedForAgain(const Place& place, absl::Time now) const;

  std::map<TaskName, Place> places_ ABSL_GUARDED_BY(mutex_);  // of those that have asked
  Incarnation office_ ABSL_GUARDED_BY(mutex_) = 0;            // in which it was last asked
  absl::Time in_office_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
