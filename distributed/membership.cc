#include "distributed/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

// Of a lease: whoever gets no answer stops before the authority, which counts from when it has heard,
// declares it lost.
constexpr double kHolds = 0.8;

// In the payload of a status, and nowhere else: which life was superseded.
std::string LifeOf(const TaskName& task, Incarnation life) {
  return absl::StrCat(task.ToString(), " ", LifeString(life));
}

absl::Status Superseded(const TaskName& task, Incarnation life, Incarnation by, const TaskName& who) {
  return SupersededError(
      absl::StrCat(task.ToString(), " (life ", LifeString(life), ") was superseded: ", who.ToString(),
                   " knows its life ", LifeString(by), ", another process that is ", task.ToString(), " now"),
      LifeOf(task, life));
}

absl::Status Lost(const TaskName& task, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", why));
}

constexpr absl::string_view kRestarted = "it restarted";

}  // namespace

TaskName AuthorityOf(const ClusterSpec& cluster) {
  for (const char* job : {"ps", "chief", "master", "worker"}) {
    if (cluster.HasJob(job)) return cluster.tasks(job).front();
  }
  return cluster.is_empty() ? TaskName() : cluster.tasks().front();
}

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)),
      authority_(AuthorityOf(options_.cluster)),
      chief_(ChiefOf(options_.cluster)),
      is_authority_(authority_ == options_.self || !options_.cluster.address(options_.self).ok()),
      started_(options_.environment->SteadyNow()),
      guests_(options_.cluster),
      gathers_from_(started_),
      last_check_(started_) {
  for (const TaskName& task : options_.cluster.tasks()) peers_[task] = Peer();
  if (is_authority_) {
    incarnation_ = FirstLifeOfTerm(TermAt(options_.environment->TimeOfDay()));
    granted_ = incarnation_;
  }
}

Incarnation Membership::incarnation() const {
  absl::MutexLock lock(&mutex_);
  return incarnation_;
}

void Membership::SetIncarnation(Incarnation life) {
  absl::MutexLock lock(&mutex_);
  incarnation_ = life;
  granted_ = std::max(granted_, life);
}

Incarnation Membership::highest_known() const {
  absl::MutexLock lock(&mutex_);
  Incarnation highest = incarnation_;
  for (const auto& [task, peer] : peers_) highest = std::max(highest, peer.incarnation);
  return highest;
}

void Membership::Supersede(Incarnation by, const TaskName& who) {
  OnReplyStatus(Superseded(options_.self, incarnation(), by, who));
}

absl::Status Membership::SupersededBy(const TaskName& task, Incarnation life, Incarnation later) const {
  return Superseded(task, life, later, options_.self);
}

void Membership::OnReplyStatus(const absl::Status& status) {
  if (IsSuperseded(status) && SupersededLife(status) == LifeOf(options_.self, incarnation())) GiveUp(status);
}

void Membership::GiveUp(const absl::Status& why) {
  std::vector<SupersededListener> listeners;
  {
    absl::MutexLock lock(&mutex_);
    if (!superseded_.ok()) return;
    superseded_ = why;
    listeners = superseded_listeners_;
  }
  for (const SupersededListener& listener : listeners) listener(why);
}

absl::Status Membership::superseded() const {
  absl::MutexLock lock(&mutex_);
  return superseded_;
}

void Membership::AddSupersededListener(SupersededListener listener) {
  absl::MutexLock lock(&mutex_);
  superseded_listeners_.push_back(std::move(listener));
}

void Membership::AddLossListener(LossListener listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.push_back(std::move(listener));
}

void Membership::AddDoneListener(DoneListener listener) {
  absl::MutexLock lock(&mutex_);
  done_listeners_.push_back(std::move(listener));
}

void Membership::SetNewsListener(std::function<void()> listener) {
  absl::MutexLock lock(&mutex_);
  news_listener_ = std::move(listener);
}

absl::Status Membership::OnSignOfLife(const TaskName& task, Incarnation incarnation) {
  return Renew(task, incarnation, State::kAlive);
}

absl::Status Membership::OnDone(const TaskName& task, Incarnation incarnation) {
  return Renew(task, incarnation, State::kDone);
}

void Membership::OnReportedDone(const TaskName& task, Incarnation life) {
  absl::MutexLock lock(&mutex_);
  const auto found = peers_.find(task);
  if (!is_authority_ || found == peers_.end() || task == options_.self || !IsTrainingJob(task.job)) return;
  Peer& peer = found->second;
  if (peer.incarnation != 0 && peer.incarnation != life) return;
  peer.reported_done = life;
  if (peer.state != State::kUnknown && peer.state != State::kLost) return;
  peer.state = State::kDone;
  NoteChangeLocked(&peer);
}

void Membership::OnGranted(Incarnation life) {
  absl::MutexLock lock(&mutex_);
  granted_ = std::max(granted_, life);
}

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
  if (address.empty() || guests_.AddressOf(task) != address) {
    WEIR_RETURN_IF_ERROR(guests_.Check(task, address));
  }
  const TaskName* const other = guests_.FindAt(address);
  if (other != nullptr && *other != task && peers_[*other].state == State::kAlive) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(), " joins from ", address, ", where ", other->ToString(), " is"));
  }
  Peer& peer = peers_[task];
  if (held != 0 && peer.incarnation != 0) return absl::OkStatus();
  if (absl::Status place = CheckPlaceLocked(task, /*counts_absent=*/held == 0); !place.ok()) {
    if (!guests_.IsGuest(task)) peers_.erase(task);
    return place;
  }
  // For the time that it needs to take its life.
  peer.place_until = options_.environment->SteadyNow() + options_.lease;
  if (guests_.IsGuest(task)) return absl::OkStatus();
  // The others are told before it can call them.
  guests_.Set(task, address);
  NoteChangeLocked(&peer);
  last_loss_ = view_.number;
  return absl::OkStatus();
}

absl::Status Membership::CheckPlaceLocked(const TaskName& task, bool counts_absent) const {
  int num_taken = 0;
  for (const auto& [other, peer] : peers_) {
    if (other == task || !IsTrainingJob(other.job)) continue;
    const bool may_come = (guests_.IsSeed(other) && peer.state == State::kUnknown) ||
                          peer.place_until > options_.environment->SteadyNow();
    const bool is_there = peer.state == State::kAlive && !peer.is_leaving;
    num_taken += is_there || (counts_absent && may_come) ? 1 : 0;
  }
  if (num_taken < options_.max_workers) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the job has ", num_taken, " tasks that train, and may have ", options_.max_workers,
                   " (WEIR_MAX_WORKERS): ", task.ToString(), " waits for one of them to end"));
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

absl::Status Membership::OnLeave(const TaskName& task, Incarnation incarnation, absl::string_view failure) {
  WEIR_RETURN_IF_ERROR(Renew(task, incarnation, State::kAlive));
  absl::MutexLock lock(&mutex_);
  Peer& peer = peers_[task];
  if (peer.incarnation != incarnation || std::exchange(peer.is_leaving, true)) return absl::OkStatus();
  peer.failure = std::string(failure.substr(0, kMaxFailureText));
  NoteChangeLocked(&peer);
  return absl::OkStatus();
}

absl::Status Membership::Renew(const TaskName& task, Incarnation incarnation, State state) {
  if (const Incarnation mine = this->incarnation(); task == options_.self && mine != 0 && incarnation != 0) {
    if (incarnation == mine) return absl::OkStatus();
    if (incarnation < mine) return Superseded(task, incarnation, mine, task);
    Supersede(incarnation, task);
    return absl::UnavailableError(superseded().message());
  }
  std::vector<Loss> losses, done;
  bool is_new_guest = false;
  {
    absl::MutexLock lock(&mutex_);
    Peer* peer = nullptr;
    WEIR_RETURN_IF_ERROR(CheckSenderLocked(task, incarnation, &peer));
    const bool is_new = peer->incarnation != incarnation;
    if (is_new) {
      if (peer->incarnation != 0) EndLifeLocked(task, peer, std::string(kRestarted), &losses);
      peer->incarnation = incarnation;
      peer->is_leaving = false;
      peer->failure.clear();
      peer->alive_in_view = 0;
      is_new_guest = is_authority_ && guests_.IsGuest(task);
      if (is_new_guest) guests_.OnLife(task, incarnation);
      peer->place_until = absl::InfinitePast();
    }
    if (is_new || (peer->state != State::kDone && peer->state != state)) {
      peer->state = state;
      NoteChangeLocked(peer);
      if (state == State::kDone) done.push_back({task, incarnation, absl::OkStatus()});
    }
    // Others do not let it in before they have heard of it.
    if (is_new_guest) last_loss_ = view_.number;
    peer->heard = options_.environment->SteadyNow();
    peer->lease_end = peer->heard + options_.lease;
  }
  Report(losses);
  ReportDone(done);
  if (is_new_guest) TellNews();
  return absl::OkStatus();
}

absl::Status Membership::CheckSenderLocked(const TaskName& task, Incarnation incarnation, Peer** peer) {
  auto it = peers_.find(task);
  if (it == peers_.end() || incarnation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message came from ", task.ToString(), " (life ", LifeString(incarnation),
                     "), which is no task of the cluster of ", options_.self.ToString()));
  }
  *peer = &it->second;
  if (incarnation > (is_authority_ ? std::max(kLastLife, granted_) : kLastGranted)) {
    return absl::InvalidArgumentError(absl::StrCat("a message came from ", task.ToString(), " (life ",
                                                   LifeString(incarnation),
                                                   "), a life that no authority grants"));
  }
  if (incarnation >= it->second.incarnation) return absl::OkStatus();
  return Superseded(task, incarnation, it->second.incarnation, options_.self);
}

void Membership::EndLifeLocked(const TaskName& task, Peer* peer, std::string why, std::vector<Loss>* losses) {
  // One that was lost before is followed by a later one: what still waits for it waits in vain.
  if (peer->state == State::kAlive || peer->state == State::kLost) {
    losses->push_back({task, peer->incarnation, Lost(task, why)});
  }
  peer->state = State::kLost;
  peer->why = std::move(why);
  peer->lost_since = options_.environment->SteadyNow();
  NoteChangeLocked(peer);
  if (is_authority_) last_loss_ = view_.number;
}

void Membership::LoseLocked(const TaskName& task, Peer* peer, std::string why, std::vector<Loss>* losses) {
  if (!peer->failure.empty()) why = absl::StrCat("it has failed: ", peer->failure);
  EndLifeLocked(task, peer, std::move(why), losses);
  if (peer->reported_done == peer->incarnation) peer->state = State::kDone;
}

void Membership::NoteChangeLocked(Peer* peer) {
  if (is_authority_) peer->changed = ++view_.number;
}

void Membership::OnGone(const TaskName& task, Incarnation incarnation, absl::string_view why) {
  std::vector<Loss> losses;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = peers_.find(task);
    if (found == peers_.end() || found->second.incarnation != incarnation) return;
    if (found->second.state == State::kAlive) {
      LoseLocked(task, &found->second, std::string(why), &losses);
    }
  }
  Report(losses);
}

absl::Status Membership::Admit(const TaskName& sender, Incarnation life, Incarnation addressee,
                               const ViewNumber& last_loss) {
  WEIR_RETURN_IF_ERROR(OnSignOfLife(sender, life));
  WEIR_RETURN_IF_ERROR(CheckAddressee(addressee));
  bool is_behind = false;
  {
    absl::MutexLock lock(&mutex_);
    is_behind = !is_authority_ && last_loss > ViewNumber{view_.authority, last_loss_};
  }
  if (is_behind) TellNews();
  return absl::OkStatus();
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

absl::Status Membership::CheckAddressee(Incarnation incarnation) const {
  absl::MutexLock lock(&mutex_);
  if (incarnation == 0 || incarnation == incarnation_) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat(options_.self.ToString(),
                   incarnation < incarnation_ || incarnation_ == 0
                       ? " has restarted: a message was meant for its life "
                       : " is an older process: a message was meant for its life ",
                   LifeString(incarnation), ", this is ",
                   incarnation_ == 0 ? "one that is still joining" : LifeString(incarnation_)));
}

void Membership::CheckLeases() {
  std::vector<Loss> losses;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.environment->SteadyNow();
    const bool was_stopped = now - last_check_ > options_.lease / 2;
    last_check_ = now;
    if (was_stopped) gathers_from_ = now;
    if (is_authority_ && !is_settled_ && now >= gathers_from_ + options_.lease) {
      is_settled_ = true;
      ++view_.number;
    }
    for (auto& [task, peer] : peers_) {
      if (peer.state != State::kAlive || task == options_.self) continue;
      if (was_stopped) {
        peer.lease_end = now + options_.lease;
      } else if (peer.lease_end <= now && JudgesLocked(task, peer)) {
        LoseLocked(task, &peer, absl::StrCat("no sign of life for ", absl::FormatDuration(options_.lease)),
                   &losses);
      }
    }
  }
  Report(losses);
}

bool Membership::JudgesLocked(const TaskName& task, const Peer& peer) const {
  if (is_authority_ || task == authority_) return true;
  // While the authority is silent, or gathers, nobody says who is alive.
  return is_settled_ && HoldsLeaseLocked() && peer.alive_in_view != view_.authority;
}

ViewNumber Membership::view() const {
  absl::MutexLock lock(&mutex_);
  return is_authority_ ? ViewNumber{incarnation_, view_.number} : view_;
}

ViewNumber Membership::last_loss() const {
  absl::MutexLock lock(&mutex_);
  return {is_authority_ ? incarnation_ : view_.authority, last_loss_};
}

View Membership::ViewSince(const ViewNumber& known) const {
  absl::MutexLock lock(&mutex_);
  View view;
  view.number = {incarnation_, view_.number};
  // One that is known before it was issued is of another time.
  if (known.authority == incarnation_ && known.number <= view_.number) view.since = known.number;
  view.is_settled = is_settled_;
  view.last_loss = last_loss_;
  for (const auto& [task, peer] : peers_) {
    // One that only others have heard has no life here, and may still be done.
    if (peer.changed == 0 || peer.changed <= view.since) continue;
    view.members.push_back({task, peer.incarnation, peer.state, peer.is_leaving,
                            peer.state == State::kLost ? peer.why : std::string(), guests_.AddressOf(task)});
  }
  return view;
}

bool Membership::HasNewsForLocked(const ViewNumber& known) const {
  return known.authority != incarnation_ || known.number < last_loss_ || known.number > view_.number;
}

bool Membership::HasNewsFor(const ViewNumber& known) const {
  absl::MutexLock lock(&mutex_);
  return HasNewsForLocked(known);
}

void Membership::ApplyView(const View& view) {
  std::vector<Loss> losses, done;
  {
    absl::MutexLock lock(&mutex_);
    if (is_authority_ || view.number <= view_) return;
    if (view.number.authority < peers_[authority_].incarnation) return;
    const uint64_t had = view_.authority == view.number.authority ? view_.number : 0;
    if (view.since > had) return;
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
  const bool is_guest = !member.address.empty() && HostPort::Parse(member.address).ok();
  if (!peers_.contains(member.task) && (!is_guest || !guests_.Check(member.task, member.address).ok())) {
    return;
  }
  Peer& peer = peers_[member.task];
  if (member.life < peer.incarnation) return;  // it has been heard in a later one
  // Also one that a guest's own cluster spec names.
  if (is_guest) guests_.Set(member.task, member.address);
  if (member.life > peer.incarnation) {
    if (peer.incarnation != 0) EndLifeLocked(member.task, &peer, std::string(kRestarted), losses);
    peer.incarnation = member.life;
    peer.state = State::kUnknown;
    peer.lease_end = options_.environment->SteadyNow() + options_.lease;
  }
  peer.is_leaving = member.is_leaving;
  peer.alive_in_view = member.state == State::kAlive ? authority : 0;
  if (peer.state == State::kDone || peer.state == member.state) return;
  switch (member.state) {
    case State::kUnknown:
      return;
    case State::kLost:
      return EndLifeLocked(member.task, &peer, member.why, losses);
    case State::kDone:
      if (member.life != 0) done->push_back({member.task, member.life, absl::OkStatus()});
      [[fallthrough]];
    case State::kAlive:
      peer.state = member.state;
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

void Membership::OnHeartbeatAnswered(absl::Time sent) {
  absl::MutexLock lock(&mutex_);
  answered_ = std::max(answered_, sent);
}

bool Membership::HoldsLeaseLocked() const {
  if (is_authority_) return true;
  const auto authority = peers_.find(authority_);
  if (authority != peers_.end() && authority->second.state == State::kDone) return true;
  return options_.environment->SteadyNow() < answered_ + kHolds * options_.lease;
}

bool Membership::TakesOthersWord() const {
  absl::MutexLock lock(&mutex_);
  return !options_.names_are_proven || !is_settled_;
}

bool Membership::HoldsLease() const {
  absl::MutexLock lock(&mutex_);
  return HoldsLeaseLocked();
}

void Membership::TellNews() const {
  std::function<void()> listener;
  {
    absl::MutexLock lock(&mutex_);
    listener = news_listener_;
  }
  if (listener) listener();
}

void Membership::ReportDone(const std::vector<Loss>& done) const {
  if (done.empty()) return;
  std::vector<DoneListener> listeners;
  {
    absl::MutexLock lock(&mutex_);
    listeners = done_listeners_;
  }
  for (const Loss& life : done) {
    for (const DoneListener& listener : listeners) listener(life.task, life.incarnation);
  }
}

void Membership::Report(const std::vector<Loss>& losses) {
  if (losses.empty()) return;
  std::vector<LossListener> listeners;
  {
    absl::MutexLock lock(&mutex_);
    listeners = listeners_;
  }
  for (const Loss& loss : losses) {
    for (const LossListener& listener : listeners) listener(loss.task, loss.incarnation, loss.reason);
  }
  if (is_authority_) TellNews();
}

std::vector<TaskName> Membership::tasks() const {
  absl::MutexLock lock(&mutex_);
  std::vector<TaskName> tasks;
  for (const auto& [task, peer] : peers_) tasks.push_back(task);
  return tasks;
}

std::string Membership::AddressOfGuest(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  return guests_.AddressOf(task);
}

Membership::State Membership::state(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it == peers_.end() ? State::kUnknown : it->second.state;
}

std::vector<TaskName> Membership::LostTasks() const {
  absl::MutexLock lock(&mutex_);
  std::vector<TaskName> lost;
  for (const auto& [task, peer] : peers_) {
    if (peer.state == State::kLost) lost.push_back(task);
  }
  return lost;
}

std::vector<TaskName> Membership::AliveServers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<TaskName> servers;
  for (const auto& [task, peer] : peers_) {
    if (task.job == "ps" && task != options_.self && peer.state == State::kAlive) servers.push_back(task);
  }
  return servers;
}

Incarnation Membership::incarnation_of(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it == peers_.end() ? 0 : it->second.incarnation;
}

absl::Status Membership::LossOf(const TaskName& task, Incarnation life) const {
  absl::MutexLock lock(&mutex_);
  const auto it = peers_.find(task);
  if (it == peers_.end() || life == 0 || life > it->second.incarnation) return absl::OkStatus();
  if (life < it->second.incarnation) return Lost(task, kRestarted);
  return it->second.state == State::kLost ? Lost(task, it->second.why) : absl::OkStatus();
}

bool Membership::IsAbsentGuestLocked(const TaskName& task, const Peer& peer) const {
  return guests_.IsGuest(task) && (peer.state == State::kUnknown || peer.is_leaving);
}

bool Membership::HasEndedLocked() const {
  bool somebody_done = false;
  for (const auto& [task, peer] : peers_) {
    if (!IsTrainingJob(task.job)) continue;
    if (IsAbsentGuestLocked(task, peer)) continue;
    if (peer.state == State::kAlive || peer.state == State::kUnknown) return false;
    // Others say so: it may still come while the authority gathers.
    if (peer.state == State::kDone && peer.incarnation == 0 && !is_settled_) return false;
    somebody_done = somebody_done || peer.state == State::kDone;
  }
  return somebody_done && ChiefGivenUpAtLocked() <= options_.environment->SteadyNow();
}

bool Membership::is_leaving(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it != peers_.end() && it->second.is_leaving;
}

absl::Time Membership::last_heard(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it == peers_.end() ? absl::InfinitePast() : it->second.heard;
}

absl::Time Membership::ChiefGivenUpAtLocked() const {
  const auto chief = peers_.find(chief_);
  if (chief == peers_.end() || chief->second.state != State::kLost) return absl::InfinitePast();
  return chief->second.lost_since + options_.chief_grace;
}

bool Membership::is_serving() const {
  absl::MutexLock lock(&mutex_);
  if (is_stopped_ || !superseded_.ok() || HasEndedLocked()) return false;
  if (leave_by_ == absl::InfiniteFuture()) return true;
  return options_.environment->Now() < leave_by_ && !RunningTasksLocked().empty();
}

std::string Membership::DescribeAwaitedChief() const {
  absl::MutexLock lock(&mutex_);
  const absl::Time given_up = ChiefGivenUpAtLocked();
  bool somebody_done = false;
  for (const auto& [task, peer] : peers_) {
    if (!IsTrainingJob(task.job) || task == chief_) continue;
    if (IsAbsentGuestLocked(task, peer)) continue;
    if (peer.state == State::kAlive || peer.state == State::kUnknown) return "";
    somebody_done = somebody_done || peer.state == State::kDone;
  }
  if (!somebody_done || given_up == absl::InfinitePast()) return "";
  const auto seconds = [](absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, absl::Seconds(1)));
  };
  const absl::Time now = options_.environment->SteadyNow();
  return absl::StrCat(chief_.ToString(), ", the chief, lost ",
                      seconds(now - (given_up - options_.chief_grace)), " ago (it is given up in ",
                      seconds(given_up - now), ")");
}

std::vector<TaskName> Membership::RunningTasksLocked() const {
  std::vector<TaskName> running;
  for (const auto& [task, peer] : peers_) {
    if (IsTrainingJob(task.job) && peer.state == State::kAlive && !peer.is_leaving) running.push_back(task);
  }
  return running;
}

std::vector<TaskName> Membership::RunningTasks() const {
  absl::MutexLock lock(&mutex_);
  return RunningTasksLocked();
}

bool Membership::AwaitEndOfJob(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || !superseded_.ok() || HasEndedLocked() || leave_by_ < absl::InfiniteFuture();
  };
  options_.environment->Await(mutex_, absl::Condition(&is_over), deadline);
  const auto may_leave = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || !superseded_.ok() || HasEndedLocked() || RunningTasksLocked().empty();
  };
  // Without a request nothing is left to wait for here: the deadline has passed, or the condition holds.
  if (leave_by_ < absl::InfiniteFuture()) {
    options_.environment->Await(mutex_, absl::Condition(&may_leave), std::min(deadline, leave_by_));
  }
  return HasEndedLocked();
}

void Membership::RequestLeave(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  leave_by_ = std::min(leave_by_, deadline);
}

void Membership::StopWaiting() {
  absl::MutexLock lock(&mutex_);
  is_stopped_ = true;
}

}  // namespace weir
