// How Membership issues views and applies them (view.h).
#include "absl/strings/str_cat.h"
#include "distributed/membership.h"
#include "distributed/task_config.h"

namespace weir {
namespace {

// Member::why of one that is done.
constexpr absl::string_view kHearsay = "others say so";

}  // namespace

ViewNumber Membership::view() const {
  absl::MutexLock lock(&mutex_);
  return is_authority_ ? ViewNumber{OfficeLocked(), view_.number} : view_;
}

ViewNumber Membership::last_loss() const {
  absl::MutexLock lock(&mutex_);
  return {is_authority_ ? OfficeLocked() : view_.authority, last_loss_};
}

View Membership::ViewSince(const ViewNumber& known) const {
  absl::MutexLock lock(&mutex_);
  View view;
  // The number would be the successor's.
  if (options_.is_elected && !is_authority_) return view;
  view.number = {OfficeLocked(), view_.number};
  // One that is known before it was issued is of another time.
  if (known.authority == view.number.authority && known.number <= view_.number) view.since = known.number;
  view.is_settled = is_settled_;
  view.last_loss = last_loss_;
  for (const auto& [task, peer] : peers_) {
    // One that only others have heard has no life here, and may still be done.
    if (peer.changed == 0 || peer.changed <= view.since) continue;
    const std::string why =
        peer.state == State::kLost ? peer.why : std::string(peer.is_hearsay ? kHearsay : "");
    view.members.push_back(
        {task, peer.incarnation, peer.state, peer.is_leaving, why, guests_.AddressOf(task)});
  }
  return view;
}

bool Membership::HasNewsForLocked(const ViewNumber& known) const {
  return known.authority != OfficeLocked() || known.number < last_loss_ || known.number > view_.number;
}

bool Membership::HasNewsFor(const ViewNumber& known) const {
  absl::MutexLock lock(&mutex_);
  return HasNewsForLocked(known);
}

void Membership::ApplyView(const View& view, const TaskName& issuer) {
  std::vector<Loss> losses, done;
  {
    absl::MutexLock lock(&mutex_);
    if (is_authority_ || view.number <= view_) return;
    if (view.number.authority < OfficeLocked()) return;
    const uint64_t had = view_.authority == view.number.authority ? view_.number : 0;
    if (view.since > had) return;
    if (options_.is_elected && view.number.authority > office_) {
      // Nobody who lies of offices brings the last term near.
      if (TermOf(view.number.authority) > kLastReportedTerm) return;
      FollowLocked(issuer, view.number.authority);
    }
    view_ = view.number;
    last_loss_ = view.last_loss;
    is_settled_ = view.is_settled;
    for (const Member& member : view.members) {
      ApplyMemberLocked(member, view.number.authority, &losses, &done);
    }
  }
  Report(losses);
  ReportDone(done);
}

void Membership::ApplyMemberLocked(const Member& member, Incarnation authority, std::vector<Loss>* losses,
                                   std::vector<Loss>* done) {
  if (member.task == options_.self) return;
  // Its name may be heard again.
  const bool is_nowhere = member.address == Guests::kNowhere;
  const bool is_guest = is_nowhere || HostPort::Parse(member.address).ok();
  if (!peers_.contains(member.task)) {
    if (!is_guest) return;
    MakeRoomForLocked(member.task);
    const absl::Status known =
        is_nowhere ? guests_.CheckName(member.task) : guests_.Check(member.task, member.address);
    if (!known.ok()) return;
  }
  KnownTask& peer = peers_[member.task];
  if (member.life < peer.incarnation) return;  // it has been heard in a later one
  // Also one that a guest's own cluster spec names.
  if (is_guest) guests_.Set(member.task, member.address);
  if (member.life > peer.incarnation) {
    if (peer.incarnation != 0) EndEarlierLifeLocked(member.task, &peer, losses);
    peer.incarnation = member.life;
    peer.state = State::kUnknown;
    peer.is_hearsay = false;
    peer.lease_end = options_.environment->SteadyNow() + options_.lease;
  }
  peer.is_leaving = member.is_leaving;
  peer.alive_in_view = member.state == State::kAlive ? authority : 0;
  const bool is_hearsay = member.state == State::kDone && !member.why.empty();
  if (peer.HasSaidDone() || (peer.state == member.state && peer.is_hearsay == is_hearsay)) return;
  switch (member.state) {
    case State::kUnknown:
      return;
    case State::kLost:
    case State::kLeft:
      return EndLifeLocked(member.task, &peer, member.state, member.why, losses);
    case State::kDone:
      // It may only be silent.
      if (is_hearsay && peer.state == State::kAlive) {
        EndLifeLocked(member.task, &peer, State::kLost, member.why, losses);
      }
      if (member.life != 0 && !is_hearsay) done->push_back({member.task, member.life, absl::OkStatus()});
      [[fallthrough]];
    case State::kAlive:
      peer.state = member.state;
      peer.is_hearsay = is_hearsay;
  }
}

void Membership::IssueLastView() {
  absl::MutexLock lock(&mutex_);
  const auto own = peers_.find(options_.self);
  if (!is_authority_ || own == peers_.end()) return;
  last_loss_ = ++view_.number;
  if (!IsTrainingJob(options_.self.job)) return;
  own->second.incarnation = incarnation_;
  own->second.state = State::kDone;
  own->second.is_hearsay = false;
  own->second.changed = view_.number;
}

std::vector<std::pair<TaskName, Incarnation>> Membership::DoneLives() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::pair<TaskName, Incarnation>> done;
  for (const auto& [task, peer] : peers_) {
    if (peer.state == State::kDone) done.emplace_back(task, peer.incarnation);
  }
  return done;
}

}  // namespace weir
