#include "distributed/authority.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {

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
  absl::MutexLock lock(&mutex_);
  Incarnation& joined = joined_[request.task];
  const Incarnation mine = membership_.incarnation();
  const bool knew_me = request.held != 0 && joined == request.held;
  if (request.known_authority > mine && knew_me) {
    membership_.Supersede(request.known_authority, request.task);
    return absl::UnavailableError(membership_.superseded().message());
  }
  joined = request.held;
  if (highest > last_) last_ = FirstLifeOfTerm(TermOf(highest) + 1);
  if (request.known_authority > mine) membership_.SetIncarnation(++last_);
  return request.held != 0 ? request.held : ++last_;
}

}  // namespace weir
