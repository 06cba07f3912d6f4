// How Membership follows an election (election.h).
#include <algorithm>
#include <utility>

#include "distributed/membership.h"

namespace weir {

TaskName Membership::authority() const {
  absl::MutexLock lock(&mutex_);
  return authority_;
}

Incarnation Membership::OfficeLocked() const {
  if (options_.is_elected) return office_;
  if (is_authority_) return incarnation_;
  const auto authority = peers_.find(authority_);
  return authority == peers_.end() ? 0 : authority->second.incarnation;
}

Incarnation Membership::office() const {
  absl::MutexLock lock(&mutex_);
  return OfficeLocked();
}

bool Membership::HoldsOffice() const {
  absl::MutexLock lock(&mutex_);
  return is_authority_ && options_.environment->SteadyNow() < office_until_;
}

void Membership::TakeOffice(Incarnation office, absl::Time until) {
  {
    absl::MutexLock lock(&mutex_);
    if (!options_.is_elected || office <= office_) return;
    office_ = office;
    office_until_ = until;
    authority_ = options_.self;
    is_authority_ = true;
    if (incarnation_ == 0) incarnation_ = office;
    granted_ = std::max({granted_, office, incarnation_});
    const absl::Time now = options_.environment->SteadyNow();
    gathers_from_ = now;
    is_settled_ = false;
    // Whoever has a view of an earlier office gets the whole one.
    view_ = {office, 1};
    last_loss_ = view_.number;
    for (auto& [task, peer] : peers_) {
      if (peer.incarnation != 0 || peer.state != State::kUnknown || guests_.IsGuest(task)) {
        peer.changed = view_.number;
      }
      if (peer.state == State::kAlive) peer.lease_end = now + options_.lease;
    }
  }
  TellOffice(true);
}

void Membership::ExtendOffice(absl::Time until) {
  absl::MutexLock lock(&mutex_);
  if (is_authority_) office_until_ = std::max(office_until_, until);
}

void Membership::LeaveOffice() {
  {
    absl::MutexLock lock(&mutex_);
    if (!options_.is_elected || !is_authority_) return;
    is_authority_ = false;
    authority_ = TaskName();
    is_settled_ = false;
    view_.authority = office_;
    for (auto& [task, peer] : peers_) peer.alive_in_view = 0;
  }
  TellOffice(false);
}

void Membership::SetAuthority(const TaskName& task, Incarnation office) {
  {
    absl::MutexLock lock(&mutex_);
    if (!options_.is_elected || office <= office_) return;
  }
  LeaveOffice();
  absl::MutexLock lock(&mutex_);
  if (office > office_) FollowLocked(task, office);
}

void Membership::FollowLocked(const TaskName& task, Incarnation office) {
  office_ = office;
  authority_ = task;
  is_settled_ = false;
  // Nobody need have heard it until now.
  const auto known = peers_.find(task);
  if (known != peers_.end()) known->second.lease_end = options_.environment->SteadyNow() + options_.lease;
}

bool Membership::WasAnsweredSince(absl::Time time) const {
  absl::MutexLock lock(&mutex_);
  return answered_ >= time;
}

void Membership::SetOfficeListener(std::function<void(bool)> listener) {
  absl::MutexLock lock(&mutex_);
  office_listener_ = std::move(listener);
}

void Membership::TellOffice(bool is_authority) const {
  std::function<void(bool)> listener;
  {
    absl::MutexLock lock(&mutex_);
    listener = office_listener_;
  }
  if (listener) listener(is_authority);
}

}  // namespace weir
