#include "distributed/authority.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/guests.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Starts that are no further apart count as one, as those of two servers of one process do: messages take
// time.
constexpr absl::Duration kSameStart = absl::Seconds(2);

Incarnation HighestOf(const JoinRequest& request) {
  return std::max({request.highest_known, request.held, request.known_authority});
}

}  // namespace

// Whether a task that asked this authority before knows a later one.
bool Authority::IsSucceeded(const JoinRequest& request) {
  // One that was elected asks the election.
  if (membership_.is_elected()) return false;
  if (request.held == 0 || request.known_authority <= membership_.incarnation()) return false;
  absl::MutexLock lock(&mutex_);
  const auto place = places_.find(request.task);
  return place != places_.end() && place->second.holder.life == request.held;
}

Authority::Authority(Membership& membership)
    : membership_(membership),
      last_(membership.incarnation()),
      in_office_since_(membership.environment().SteadyNow() - membership.age()) {}

Incarnation Authority::LastPossible() {
  absl::MutexLock lock(&mutex_);
  return std::max({kLastLife, last_, membership_.office()});
}

absl::StatusOr<Incarnation> Authority::Join(const JoinRequest& request) {
  if (!membership_.HoldsOffice()) {
    return absl::UnavailableError(
        absl::StrCat(membership_.self().ToString(), " does not know any more whether it is the authority"));
  }
  const Incarnation highest = HighestOf(request);
  if (const Incarnation limit = LastPossible(); highest > limit) {
    return absl::InvalidArgumentError(absl::StrCat(request.task.ToString(), " reports the life ",
                                                   LifeString(highest), ", which no clock can have given"));
  }
  // Another task has taken office, or the store has lost what it knew: the election finds out, and takes a
  // greater term where it has to. Lives beyond the term would be those of a successor.
  if (membership_.is_elected() && TermOf(highest) > TermOf(membership_.office())) {
    membership_.OnGranted(highest);
    return absl::UnavailableError(absl::StrCat(membership_.self().ToString(), " is in office in term ",
                                               absl::Hex(TermOf(membership_.office())), ", but ",
                                               request.task.ToString(), " knows of the life ",
                                               LifeString(highest), ": it asks the store"));
  }
  WEIR_RETURN_IF_ERROR(membership_.AdmitTask(request.task, request.held, request.address));
  if (request.held != 0) {
    membership_.OnGranted(request.held);
    WEIR_RETURN_IF_ERROR(membership_.OnSignOfLife(request.task, request.held));
    membership_.OnAddress(request.task, request.held, request.address);
  }
  // Membership tells its listeners, who may hold locks of their own: not with a lock held.
  if (!membership_.names_are_proven() && IsSucceeded(request)) {
    membership_.Supersede(request.known_authority, request.task);
    return absl::UnavailableError(membership_.superseded().message());
  }
  absl::MutexLock lock(&mutex_);
  NoteOffice();
  // Of guests whose names were given away (guests.h).
  if (places_.size() > 2 * Guests::kMaxGuests) {
    std::erase_if(places_, [this](const auto& place) { return !membership_.Knows(place.first); });
  }
  // It was elected since.
  last_ = std::max({last_, membership_.office(), membership_.incarnation()});
  const absl::Time now = membership_.environment().SteadyNow();
  const absl::Time started = now - request.age;
  Place& place = places_[request.task];
  // It may have shown its life with another message than a heartbeat.
  const bool is_taken = membership_.incarnation_of(request.task) == place.promised.life;
  if (is_taken && place.promised.life > place.holder.life) {
    place = {Holder(place.promised), {}, absl::InfinitePast()};
  }
  WEIR_RETURN_IF_ERROR(request.held == 0 ? CheckYoungest(request, started, place)
                                         : CheckFound(request, place));
  if (request.held > place.holder.life) {
    place = {{request.held, started, request.process, now, now, /*is_granted=*/false},
             {},
             absl::InfinitePast(),
             /*is_sought=*/true};
  } else if (request.held != 0) {
    place.holder.started = std::min(place.holder.started, started);
    place.holder.heard = now;
  }
  RaiseAbove(request);
  if (request.held != 0) {
    if (request.held != place.holder.life || !IsTooLow(place.holder)) return request.held;
    // The answer with it may have been lost.
    if (place.promised.life > request.held && now < place.promised_until) return place.promised.life;
  }
  place.promised = {++last_, started, request.process, now, now, /*is_granted=*/true};
  place.promised_until = now + membership_.lease() * 2 / 5;
  membership_.OnGranted(request.task, last_, request.address);
  return last_;
}

bool Authority::IsTooLow(const Holder& holder) const { return holder.is_granted && holder.life <= too_low_; }

void Authority::RaiseAbove(const JoinRequest& request) {
  // Tasks show their lives with other messages than this one, too, and before it.
  const Incarnation highest =
      std::max(HighestOf(request), membership_.is_elected() ? 0 : membership_.highest_known());
  if (highest > last_) {
    if (membership_.IsGathering() && !membership_.is_elected()) too_low_ = last_;
    last_ = FirstLifeOfTerm(TermOf(highest) + 1);
  }
  const bool knows_later = request.known_authority > membership_.incarnation();
  if (knows_later && membership_.TakesOthersWord() && !membership_.is_elected()) {
    membership_.SetIncarnation(++last_);
  }
}

void Authority::NoteOffice() {
  if (!membership_.is_elected() || std::exchange(office_, membership_.office()) == membership_.office())
    return;
  in_office_since_ = membership_.environment().SteadyNow();
  // Others may have granted lives meanwhile.
  places_.clear();
}

bool Authority::MayBeReplaced(const JoinRequest& request) {
  // Join says what is wrong with one that knows too much.
  if (request.held != 0 || HighestOf(request) > LastPossible()) return false;
  absl::MutexLock lock(&mutex_);
  NoteOffice();
  // Whoever is asked may have met the authority before this one, and knows its life.
  if (!membership_.is_elected()) RaiseAbove(request);
  const absl::Time started = membership_.environment().SteadyNow() - request.age;
  const auto place = places_.find(request.task);
  if (place == places_.end() || place->second.last_started() == absl::InfinitePast()) {
    return started <= in_office_since_ + kSameStart;
  }
  return !place->second.IsOf(request.process) && started <= place->second.last_started() + kSameStart;
}

absl::Status Authority::CheckReplaced(const JoinRequest& request) {
  if (membership_.state(request.task) == Membership::State::kDone) {
    return membership_.SupersededBy(request.task, request.held, membership_.incarnation_of(request.task));
  }
  absl::MutexLock lock(&mutex_);
  const auto place = places_.find(request.task);
  if (place == places_.end()) return absl::OkStatus();
  return CheckYoungest(request, membership_.environment().SteadyNow() - request.age, place->second);
}

absl::Status Authority::CheckFound(const JoinRequest& request, const Place& place) const {
  const absl::Time now = membership_.environment().SteadyNow();
  const bool is_missed = now - place.missed_since >= membership_.lease() && IsLookedForAgain(place, now);
  if (place.holder.life != request.held || !is_missed) return absl::OkStatus();
  return membership_.SupersededFor(
      request.task, request.held,
      absl::StrCat(membership_.self().ToString(), " does not find it at its address ", request.address,
                   ", so another process must have taken the place of ", request.task.ToString()));
}

// After a longer time, in which this task stood still or the other one could not ask, one look says nothing.
bool Authority::IsLookedForAgain(const Place& place, absl::Time now) const {
  return now - place.last_missed < membership_.lease();
}

bool Authority::BeginLook(const JoinRequest& request) {
  absl::MutexLock lock(&mutex_);
  const auto place = places_.find(request.task);
  if (place == places_.end() || request.held == 0 || place->second.holder.life != request.held) return false;
  return place->second.is_sought && !std::exchange(place->second.is_being_looked_for, true);
}

void Authority::EndLook(const JoinRequest& request, Found found) {
  absl::MutexLock lock(&mutex_);
  const auto place = places_.find(request.task);
  if (place == places_.end() || place->second.holder.life != request.held) return;
  Place& looked_for = place->second;
  looked_for.is_being_looked_for = false;
  if (found == Found::kIt) looked_for.is_sought = false;
  if (found == Found::kIt || found == Found::kUnknown) {
    looked_for.missed_since = absl::InfiniteFuture();
    looked_for.last_missed = absl::InfinitePast();
  } else {
    const absl::Time now = membership_.environment().SteadyNow();
    if (!IsLookedForAgain(looked_for, now)) looked_for.missed_since = now;
    looked_for.last_missed = now;
  }
}

absl::Status Authority::CheckYoungest(const JoinRequest& request, absl::Time started,
                                      const Place& place) const {
  const Holder& holder = place.holder;
  const bool are_known = request.process != 0 && holder.process != 0;
  const bool seems_older = are_known ? request.process != holder.process && started < holder.started
                                     : started + kSameStart < holder.started;
  const Membership::State state = membership_.state(request.task);
  if (seems_older) {
    // One message may have waited, several heartbeats have not.
    const bool is_certain = holder.heard - holder.since > membership_.lease();
    if (is_certain || state == Membership::State::kDone) {
      return membership_.SupersededBy(request.task, request.held, holder.life);
    }
    if (state != Membership::State::kLost) {
      return absl::UnavailableError(absl::StrCat("another process, which seems to be the later one, is ",
                                                 request.task.ToString(), ": this one is to ask again"));
    }
  }
  // Its own earlier question may have taken longer than this one.
  const bool is_same = request.process != 0 && request.process == place.promised.process;
  if (!is_same && started < place.promised.started &&
      membership_.environment().SteadyNow() < place.promised_until) {
    return absl::UnavailableError(absl::StrCat("a later process has just asked to be ",
                                               request.task.ToString(), ": this one is to ask again"));
  }
  return absl::OkStatus();
}

}  // namespace weir
