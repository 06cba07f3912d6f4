#include "distributed/election/election.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"
#include "kernels/notice.h"

namespace weir {
namespace {

constexpr absl::Duration kNoticeInterval = absl::Seconds(10);
constexpr size_t kMostSent = 64;

std::vector<TaskName> Candidates(const ClusterSpec& cluster) {
  std::vector<TaskName> candidates = cluster.tasks();
  std::erase_if(candidates, [has_ps = cluster.HasJob("ps")](const TaskName& task) {
    return has_ps ? task.job != "ps" : !IsTrainingJob(task.job);
  });
  return candidates;
}

}  // namespace

Election::Election(Peers& peers, AuthorityStore& store)
    : peers_(peers),
      store_(store),
      membership_(peers.membership()),
      lease_(membership_.lease()),
      interval_(lease_ / 5),
      candidates_(Candidates(membership_.cluster())),
      is_candidate_(absl::c_linear_search(candidates_, membership_.self())),
      // 0 is nobody.
      id_(std::max<uint64_t>(1, peers.environment().Random())) {
  {
    absl::MutexLock lock(&state_->timers_mutex);
    state_->timers = &peers_.timers();
  }
  peers_.timers().At(absl::InfinitePast(), [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

Election::~Election() {
  {
    absl::MutexLock lock(&state_->mutex);
    state_->is_stopped = true;
  }
  absl::MutexLock lock(&state_->timers_mutex);
  state_->timers = nullptr;
}

void Election::Beat() {
  state_->mutex.AssertHeld();
  const absl::Time now = peers_.environment().SteadyNow();
  if (membership_.is_authority() && !membership_.HoldsOffice()) {
    LeaveOffice(absl::StrCat(" is not the authority any more: the store has not answered for ",
                             absl::FormatDuration(kHolds * lease_)));
  }
  const bool is_candidate = is_candidate_ && !state_->has_resigned;
  if (membership_.is_authority()) {
    Replace(NextBeat());
  } else if (is_candidate && IsVacant()) {
    beat_ = 1;
    Replace(
        {.term = NextTerm(membership_.self()), .task = membership_.self(), .candidate = id_, .beat = beat_});
  } else if (is_candidate && has_seen_ && seen_.revision == 0) {
    Replace({.term = NextTerm(membership_.self()), .task = membership_.self(), .candidate = id_, .beat = 0});
  } else if (is_candidate_ || membership_.authority().job.empty() ||
             !membership_.WasAnsweredSince(now - 2 * interval_)) {
    Read();
  }
  peers_.timers().At(peers_.environment().Now() + interval_, [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

bool Election::IsVacant() const {
  if (!has_seen_ || seen_.revision == 0) return false;
  const bool has_joined = membership_.incarnation() != 0;
  if (seen_.record.has_ended && !is_older_) {
    return !has_joined || membership_.state(seen_.record.task) != Membership::State::kDone;
  }
  return asked_last_ >= seen_first_ + lease_;
}

uint64_t Election::GreatestTerm() const {
  const Incarnation life = std::max(membership_.highest_known(), membership_.office());
  return std::max(greatest_.first, TermOf(life) <= kLastReportedTerm ? TermOf(life) : 0);
}

uint64_t Election::NextTerm(const TaskName& task) const {
  const uint64_t least = std::max(GreatestTerm() + 1, TermAt(peers_.environment().TimeOfDay()));
  const uint64_t num_candidates = std::max<uint64_t>(1, candidates_.size());
  const uint64_t place = static_cast<uint64_t>(absl::c_find(candidates_, task) - candidates_.begin());
  return least + (place + num_candidates - least % num_candidates) % num_candidates;
}

bool Election::IsOfLowTerm() const {
  if (!has_seen_ || seen_.revision == 0 || seen_.record.has_ended) return false;
  const uint64_t term = seen_.record.term;
  return term < GreatestTerm() || (term == greatest_.first && seen_.record.candidate != greatest_.second);
}

AuthorityRecord Election::NextBeat() {
  AuthorityRecord next = seen_.record;
  next.beat = ++beat_;
  if (IsOfLowTerm()) next.term = NextTerm(next.task);
  return next;
}

AuthorityStore::Then Election::Answered() {
  const Question question = {peers_.environment().SteadyNow(), seen_.store_revision, era_};
  return [this, state = state_, question](absl::StatusOr<AuthorityStore::Stored> stored) {
    absl::MutexLock lock(&state->timers_mutex);
    if (state->timers == nullptr) return;
    state->timers->At(absl::InfinitePast(), [this, state, question, stored = std::move(stored)] {
      absl::MutexLock lock(&state->mutex);
      if (!state->is_stopped) OnAnswer(question, stored);
    });
  };
}

void Election::Read() { store_.Read(2 * interval_, Answered()); }

void Election::Replace(const AuthorityRecord& record) {
  if (record.term > kLastTerm) {
    return NoteError(
        absl::OutOfRangeError(absl::StrCat("its record has the term ", absl::Hex(seen_.record.term),
                                           ", and there are none above it: delete the record")));
  }
  if (sent_.size() >= kMostSent) sent_.erase(sent_.begin());
  if (record.candidate == id_ && record.beat > 0) {
    sent_.emplace(std::pair(record.term, record.beat), peers_.environment().SteadyNow());
  }
  store_.Replace(seen_, record, 2 * interval_, Answered());
}

bool Election::Note(const Question& question, const AuthorityStore::Stored& stored) {
  const bool went_back = stored.store_revision < question.store_revision;
  if (question.era != era_ || (!went_back && stored.store_revision < seen_.store_revision)) return false;
  const bool has_changed =
      !has_seen_ || went_back || stored.revision != seen_.revision || stored.record != seen_.record;
  const bool has_lost = seen_.revision != 0 && (went_back || stored.revision == 0);
  const AuthorityStore::Stored before = std::exchange(seen_, stored);
  if (went_back) ++era_;
  has_seen_ = true;
  if (!has_changed) {
    asked_last_ = std::max(asked_last_, question.sent);
    return true;
  }
  is_older_ = went_back;
  seen_first_ = peers_.environment().SteadyNow();
  asked_last_ = question.sent;
  if (seen_.record.term > greatest_.first) greatest_ = {seen_.record.term, seen_.record.candidate};
  if (has_lost) {
    PrintNotice(absl::StrCat(
        membership_.self().ToString(), ": the store of the authority has lost the record of term ",
        absl::Hex(before.record.term), " (", before.record.task.ToString(), "): ",
        stored.revision == 0 ? "it has none"
                             : absl::StrCat("it has one of term ", absl::Hex(stored.record.term)),
        ". Another authority is elected, a lease (", absl::FormatDuration(lease_),
        ") later at the earliest"));
  }
  return true;
}

void Election::OnAnswer(const Question& question, const absl::StatusOr<AuthorityStore::Stored>& stored) {
  state_->mutex.AssertHeld();
  if (!stored.ok()) return NoteError(stored.status());
  said_.clear();
  if (!Note(question, *stored)) return;  // late
  const bool is_own = seen_.revision != 0 && seen_.record.candidate == id_;
  if (state_->has_resigned && !is_own) state_->is_told = true;
  if (is_own && !is_older_) return OnOwnRecord();
  // Nobody is in office by a claim, nor by what was lost.
  const bool names_authority = seen_.revision != 0 && seen_.record.beat > 0 && !is_own;
  if (names_authority) OnOthersRecord();
  if (membership_.is_authority())
    LeaveOffice(" is not the authority any more: the store does not have its record");
  // At once: whom it names replaces it again soon.
  if (IsOfLowTerm() && !is_own) {
    AuthorityRecord raised = seen_.record;
    raised.term = NextTerm(raised.task);
    Replace(raised);
  }
}

void Election::OnOwnRecord() {
  state_->mutex.AssertHeld();
  if (seen_.record.has_ended) {
    state_->is_told = true;
    return;
  }
  if (state_->has_resigned) return SayEnd();
  const auto sent = sent_.find({seen_.record.term, seen_.record.beat});
  if (sent == sent_.end()) return;  // a claim, or so long ago that the office has ended
  const absl::Time until = sent->second + kHolds * lease_;
  const Incarnation office = FirstLifeOfTerm(seen_.record.term);
  sent_.erase(sent_.begin(), sent);
  if (membership_.is_authority() && membership_.office() == office) {
    membership_.ExtendOffice(until);
    return peers_.OnLease();
  }
  // The answer may have taken too long: the record is as old as the office would be.
  if (peers_.environment().SteadyNow() >= until || office <= membership_.office()) return;
  membership_.LeaveOffice();  // of a lower term
  membership_.TakeOffice(office, until);
  PrintNotice(absl::StrCat(membership_.self().ToString(), " is the authority now, in term ",
                           absl::StrCat(absl::Hex(seen_.record.term))));
  // What waited for a life of this process.
  peers_.OnLease();
}

void Election::OnOthersRecord() {
  const Incarnation office = FirstLifeOfTerm(seen_.record.term);
  if (office <= membership_.office()) return;
  peers_.NoteAuthoritySaid(absl::OkStatus());
  membership_.SetAuthority(seen_.record.task, office);
}

void Election::LeaveOffice(absl::string_view why) {
  PrintNotice(absl::StrCat(membership_.self().ToString(), why));
  membership_.LeaveOffice();
}

void Election::NoteError(const absl::Status& error) {
  peers_.NoteAuthoritySaid(error);
  const absl::Time now = peers_.environment().SteadyNow();
  if (said_ == error.message() || now < next_notice_) return;
  said_ = std::string(error.message());
  next_notice_ = now + kNoticeInterval;
  PrintNotice(absl::StrCat(membership_.self().ToString(), ": the store of the authority: ", error.message()));
}

void Election::SayEnd() {
  if (seen_.revision == 0 || seen_.record.candidate != id_) return;
  AuthorityRecord last = seen_.record;
  last.beat = ++beat_;
  last.has_ended = true;
  Replace(last);
}

void Election::Resign(absl::Duration patience) {
  Environment& environment = peers_.environment();
  absl::MutexLock lock(&state_->mutex);
  if (std::exchange(state_->has_resigned, true) || !membership_.is_authority()) return;
  // When the record is there, another task may take office at once.
  membership_.LeaveOffice();
  // Not while the lock is held: the answer may come at once.
  peers_.timers().At(absl::InfinitePast(), [this, state = state_] {
    absl::MutexLock still_there(&state->mutex);
    if (!state->is_stopped) SayEnd();
  });
  environment.Await(state_->mutex, absl::Condition(&state_->is_told), environment.Now() + patience);
}

}  // namespace weir
