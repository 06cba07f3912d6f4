// What Membership does with guests (guests.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "distributed/membership.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::Status Membership::AdmitTask(const TaskName& task, Incarnation held, const std::string& address) {
  bool is_new = false;
  {
    absl::MutexLock lock(&mutex_);
    if (guests_.IsSeed(task)) return absl::OkStatus();
    is_new = !guests_.IsGuest(task);
    WEIR_RETURN_IF_ERROR(AdmitGuestLocked(task, held, address));
  }
  if (is_new) TellNews();
  return absl::OkStatus();
}

absl::Status Membership::AdmitGuestLocked(const TaskName& task, Incarnation held,
                                          const std::string& address) {
  if (options_.max_workers == 0) {
    return absl::InvalidArgumentError(absl::StrCat(task.ToString(), " is no task of the cluster of ",
                                                   options_.self.ToString(),
                                                   ": the tasks were given different cluster specs, and "
                                                   "without WEIR_MAX_WORKERS none may join a running "
                                                   "job"));
  }
  MakeRoomForLocked(task);
  if (address.empty() || guests_.AddressOf(task) != address) {
    WEIR_RETURN_IF_ERROR(guests_.Check(task, address));
  }
  WEIR_RETURN_IF_ERROR(PlacesLocked().CheckAddress(task, address));
  if (held == 0) {
    if (!is_settled_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(options_.self.ToString(), " has just begun to find out who trains, which takes ",
                       absl::FormatDuration(options_.lease), ": ", task.ToString(), " waits for a place"));
    }
    WEIR_RETURN_IF_ERROR(PlacesLocked().Check(task, /*counts_absent=*/true));
  }
  KnownTask& peer = peers_[task];
  if (held != 0 && peer.incarnation != 0) return absl::OkStatus();
  // For the time that it needs to take its life.
  peer.place_until = options_.environment->SteadyNow() + options_.lease;
  if (guests_.IsGuest(task)) return absl::OkStatus();
  // The others are told before it can call them.
  guests_.Set(task, address);
  NoteChangeLocked(&peer);
  last_loss_ = view_.number;
  return absl::OkStatus();
}

void Membership::MakeRoomForLocked(const TaskName& guest) {
  if (!guests_.is_full() || guests_.IsGuest(guest)) return;
  const TaskName* const ended = PlacesLocked().FindEndedGuest();
  if (ended == nullptr) return;
  const TaskName forgotten = *ended;
  guests_.Forget(forgotten);
  peers_.erase(forgotten);
}

bool Membership::StartsLocked() const {
  return !is_settled_ || options_.environment->SteadyNow() < started_ + Places::kStart;
}

Places Membership::PlacesLocked() const {
  return {.tasks = peers_,
          .guests = guests_,
          .max_workers = options_.max_workers,
          .lease = options_.lease,
          .now = options_.environment->SteadyNow(),
          .starts = StartsLocked()};
}

EndOfJob Membership::EndLocked() const {
  const auto authority = peers_.find(authority_);
  const bool is_alone = options_.self.job == "ps" && !options_.is_elected && authority != peers_.end() &&
                        authority->second.state == State::kLost;
  return {.tasks = peers_,
          .guests = guests_,
          .chief = chief_,
          .chief_grace = options_.chief_grace,
          .now = options_.environment->SteadyNow(),
          .is_settled = is_settled_,
          .awaits_all_seeds = options_.max_workers == 0 || StartsLocked(),
          .lease = options_.lease,
          .authority_lost_since = is_alone ? authority->second.lost_since : absl::InfiniteFuture()};
}

void Membership::OnGranted(const TaskName& task, Incarnation life, const std::string& address) {
  absl::MutexLock lock(&mutex_);
  granted_ = std::max(granted_, life);
  if (guests_.IsGuest(task)) guests_.Promise(task, life, address);
}

void Membership::OnAddress(const TaskName& task, Incarnation life, const std::string& address) {
  absl::MutexLock lock(&mutex_);
  const auto found = peers_.find(task);
  if (found == peers_.end() || !guests_.IsGuest(task) || found->second.incarnation != life) return;
  if (guests_.AddressOf(task) == address) return;
  guests_.Set(task, address);
  NoteChangeLocked(&found->second);
}

bool Membership::MayBeGuest(const absl::Status& refusal, const TaskName& sender,
                            const ViewNumber& last_loss) const {
  if (!absl::IsInvalidArgument(refusal) || !IsTrainingJob(sender.job)) return false;
  {
    absl::MutexLock lock(&mutex_);
    if (peers_.contains(sender)) return guests_.IsGuest(sender);  // since then
    // An authority that was started again hears of the guests that there are with their heartbeats.
    if (is_authority_) return options_.max_workers > 0 && !is_settled_;
    if (last_loss <= ViewNumber{view_.authority, last_loss_}) return false;
  }
  TellNews();
  return true;
}

bool Membership::Knows(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  return peers_.contains(task);
}

bool Membership::IsSeed(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  return guests_.IsSeed(task);
}

std::string Membership::AddressOfGuest(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  const auto known = peers_.find(task);
  const bool is_gone = known != peers_.end() && guests_.IsGuest(task) && !guests_.IsSeed(task) &&
                       IsGoneForGood(known->second, options_.lease, options_.environment->SteadyNow());
  return is_gone ? std::string(Guests::kNowhere) : guests_.AddressOf(task);
}

}  // namespace weir
