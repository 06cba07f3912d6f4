// Which task is the authority (authority.h), where a store outside the job says so: another one takes its
// place when it dies, and every other task goes on.
//
// Candidates are the parameter servers of the cluster spec; without any, its training tasks. The store has
// one record (authority_store.h): term, task, and a number that the authority raises every fifth of a lease.
// A candidate that has seen the same record for a whole lease replaces it with one of its own and a greater
// term, and is the authority then; of several one succeeds. Nothing rests on the store's clock, or on clocks
// that agree: each counts from when it has seen, or sent, something itself, as with leases.
//
// The authority stays in office for 0.8 leases since it sent the last record that it knows to be in the
// store. After that it answers nobody (Membership::HoldsOffice), and it leaves office; it also leaves it
// before it tells the store that it ends, and when the store has another record than its own, or none. So two
// tasks may believe for a moment that they are the authority, but not both answer; and what the earlier one
// has said counts for nothing when a later term was heard of. A store that cannot be reached for that long so
// stops the job, until it can be reached: nobody could say that no other task has taken office.
//
// A store may lose its record: somebody deletes it, or the store is wiped, or restored from a copy. A record
// that is gone, or older, is no late answer: the question was asked when a newer one was known. Whoever was
// in office then may be so for 0.8 leases. So a candidate that finds no record claims the office only, with a
// record of beat 0, in which nobody is in office; when that has stood for a lease, it or another one replaces
// it. A new job waits for that lease, too: that there is no record does not say that there was none.
// Whoever knows of a greater term than the store's raises that one, in the record and in the office of whom
// it names; the authority itself grants no life in its term when it has heard of a greater one.
//
// The term is above that of the record before, above the clock of the candidate, and above all lives that it
// has heard of: lives that are granted in it are greater than all others, as authority.h wants it. It leaves
// the candidate's place among all of them as its remainder: two tasks that know nothing of one another,
// because the store was wiped, do not take the same.
//
// The others ask the store when the authority is not known, or does not answer. One that answers may have
// taken a later office since they asked: its views say in which it is (Membership::ApplyView). An authority
// that ends says so in the store. Who has left in good order, because the job ends, has no successor, except
// in a job that begins.
//
// Runs on the timer thread of Peers. Borrows both and the store; must be destroyed before them. Answers of
// the store may come later than that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/election/authority_store.h"
#include "distributed/peers/peers.h"
#include "distributed/task_name.h"
#include "kernels/timers.h"

namespace weir {

class Election {
 public:
  // Starts at once. `membership` of Peers is elected (MembershipOptions).
  Election(Peers& peers, AuthorityStore& store);
  // Nothing is asked after it returns.
  ~Election();

  // The task leaves: it is no candidate any more, and if it is the authority it leaves office, and the store
  // is told, for `patience` at most.
  void Resign(absl::Duration patience);

 private:
  struct State {
    absl::Mutex mutex;
    bool is_stopped ABSL_GUARDED_BY(mutex) = false;
    bool has_resigned ABSL_GUARDED_BY(mutex) = false;
    bool is_told ABSL_GUARDED_BY(mutex) = false;  // of the resignation
    // The way of the answers, which may come while `mutex` is held: not after the election.
    absl::Mutex timers_mutex;
    Timers* timers ABSL_GUARDED_BY(timers_mutex) = nullptr;
  };
  struct Question {
    absl::Time sent;
    int64_t store_revision = 0;  // the newest that was known then
    int era = 0;
  };
  static constexpr double kHolds = 0.8;  // of a lease: as tasks do (membership.cc)

  // With state_->mutex held, on the timer thread:
  void Beat();
  void Read();
  void Replace(const AuthorityRecord& record);
  void OnAnswer(const Question& question, const absl::StatusOr<AuthorityStore::Stored>& stored);
  // Whether it says what is there now. Notes it then.
  bool Note(const Question& question, const AuthorityStore::Stored& stored);
  void OnOwnRecord();
  void OnOthersRecord();
  void LeaveOffice(absl::string_view why);
  // Of one that resigns: until the store has it.
  void SayEnd();
  // Whether the one that the record names need not be waited for.
  bool IsVacant() const;
  // The greatest term that this process knows of.
  uint64_t GreatestTerm() const;
  // Of that task's next office: of no other candidate's.
  uint64_t NextTerm(const TaskName& task) const;
  // Whether the record's term is too low.
  bool IsOfLowTerm() const;
  // What this task says in office.
  AuthorityRecord NextBeat();
  AuthorityStore::Then Answered();
  void NoteError(const absl::Status& error);

  Peers& peers_;
  AuthorityStore& store_;
  Membership& membership_;
  const absl::Duration lease_;
  const absl::Duration interval_;
  const std::vector<TaskName> candidates_;
  const bool is_candidate_;
  const uint64_t id_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  // Guarded by state_->mutex.
  AuthorityStore::Stored seen_;  // the newest
  bool has_seen_ = false;
  bool is_older_ = false;                   // than what the store had before
  int era_ = 0;                             // how often the store went back: earlier questions count no more
  std::pair<uint64_t, uint64_t> greatest_;  // of the records that were seen: term, and whose
  absl::Time seen_first_ = absl::InfinitePast();  // when it was first seen
  absl::Time asked_last_ = absl::InfinitePast();  // when the last request was sent that was answered with it
  // Own records, by term and beat: an earlier one may still be in the store when the next is sent.
  std::map<std::pair<uint64_t, uint64_t>, absl::Time> sent_;
  uint64_t beat_ = 0;
  std::string said_;
  absl::Time next_notice_ = absl::InfinitePast();
};

}  // namespace weir
