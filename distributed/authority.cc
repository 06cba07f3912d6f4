#include "distributed/authority.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Starts that are no further apart count as one, as those of two servers of one process do: messages take
// time.
constexpr absl::Duration kSameStart = absl::Seconds(2);

}  // namespace

// Whether a task that asked this authority before knows a later one.
bool Authority::IsSucceeded(const JoinRequest& request) {
  if (request.held == 0 || request.known_authority <= membership_.incarnation()) return false;
  absl::MutexLock lock(&mutex_);
  const auto place = places_.find(request.task);
  return place != places_.end() && place->second.life == request.held;
}

Authority::Authority(Membership& membership) : membership_(membership), last_(membership.incarnation()) {}

absl::StatusOr<Incarnation> Authority::Join(const JoinRequest& request) {
  const Incarnation highest = std::max({request.highest_known, request.held, request.known_authority});
  if (highest > kLastLife) {
    return absl::InvalidArgumentError(absl::StrCat(request.task.ToString(), " reports the life ",
                                                   LifeString(highest), ", which no clock can have given"));
  }
  if (!membership_.HasTask(request.task)) {
    return absl::InvalidArgumentError(absl::StrCat(request.task.ToString(), " is no task of the cluster of ",
                                                   membership_.self().ToString()));
  }
  if (request.held != 0) WEIR_RETURN_IF_ERROR(membership_.OnSignOfLife(request.task, request.held));
  // Membership tells its listeners, who may hold locks of their own: not with a lock held.
  if (IsSucceeded(request)) {
    membership_.Supersede(request.known_authority, request.task);
    return absl::UnavailableError(membership_.superseded().message());
  }
  absl::MutexLock lock(&mutex_);
  const absl::Time started = membership_.environment().SteadyNow() - request.age;
  Place& place = places_[request.task];
  if (request.held == 0 && started + kSameStart < place.started) {
    return membership_.SupersededBy(request.task, request.held, place.life);
  }
  const absl::Time now = membership_.environment().SteadyNow();
  if (request.held == 0 && started < place.promised_to && now < place.promised_until) {
    return absl::UnavailableError(absl::StrCat("a later process has just asked to be ",
                                               request.task.ToString(), ": this one is to ask again"));
  }
  const Incarnation mine = membership_.incarnation();
  if (request.held > place.life) {
    place = {request.held, started};
  } else if (request.held != 0) {
    place.started = std::min(place.started, started);
  }
  if (highest > last_) last_ = FirstLifeOfTerm(TermOf(highest) + 1);
  if (request.known_authority > mine) membership_.SetIncarnation(++last_);
  if (request.held != 0) return request.held;
  place.promised_to = started;
  place.promised_until = now + membership_.lease() * 2 / 5;
  return ++last_;
}

}  // namespace weir
