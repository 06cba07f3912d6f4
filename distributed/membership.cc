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

absl::Status Superseded(const TaskName& task, Incarnation life, absl::string_view why) {
  return SupersededError(
      absl::StrCat(task.ToString(), " (life ", LifeString(life), ") was superseded: ", why),
      LifeOf(task, life));
}

absl::Status Superseded(const TaskName& task, Incarnation life, Incarnation by, const TaskName& who) {
  return Superseded(task, life,
                    absl::StrCat(who.ToString(), " knows its life ", LifeString(by),
                                 ", another process that is ", task.ToString(), " now"));
}

absl::Status Lost(const TaskName& task, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", why));
}

absl::Status HasLeft(const TaskName& task) {
  return absl::UnavailableError(absl::StrCat(task.ToString(), " has left"));
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
      chief_(ChiefOf(options_.cluster)),
      started_(options_.environment->SteadyNow()),
      authority_(options_.is_elected ? TaskName() : AuthorityOf(options_.cluster)),
      is_authority_(!options_.is_elected &&
                    (authority_ == options_.self || !options_.cluster.address(options_.self).ok())),
      guests_(options_.cluster),
      gathers_from_(started_),
      last_check_(started_) {
  for (const TaskName& task : options_.cluster.tasks()) peers_[task] = KnownTask();
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
  Incarnation highest = std::max(incarnation_, granted_);
  for (const auto& [task, peer] : peers_) highest = std::max(highest, peer.incarnation);
  return highest;
}

void Membership::Supersede(Incarnation by, const TaskName& who) {
  OnReplyStatus(Superseded(options_.self, incarnation(), by, who));
}

absl::Status Membership::SupersededBy(const TaskName& task, Incarnation life, Incarnation later) const {
  return Superseded(task, life, later, options_.self);
}

absl::Status Membership::SupersededFor(const TaskName& task, Incarnation life, absl::string_view why) const {
  return Superseded(task, life, why);
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

void Membership::SetViewListener(std::function<void()> listener) {
  absl::MutexLock lock(&mutex_);
  view_listener_ = std::move(listener);
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

void Membership::OnReportedDone(const TaskName& from, const TaskName& task, Incarnation life) {
  absl::MutexLock lock(&mutex_);
  const auto found = peers_.find(task);
  if (!is_authority_ || found == peers_.end() || task == options_.self || !IsTrainingJob(task.job)) return;
  KnownTask& peer = found->second;
  const bool was_heard = peer.incarnation != 0;
  if (was_heard && peer.incarnation != life) return;
  const bool is_trusted = !options_.names_are_proven || from.job == "ps";
  if (is_settled_ && (was_heard || !is_trusted)) return;
  if (is_trusted && !is_settled_) {
    peer.reported_done = life;
    peer.reported_at = options_.environment->SteadyNow();
  }
  const bool may_be_done = peer.state == (was_heard ? State::kLost : State::kUnknown);
  if (!may_be_done || (was_heard && !is_trusted)) return;
  peer.state = State::kDone;
  peer.is_hearsay = true;
  NoteChangeLocked(&peer);
}

void Membership::OnGranted(Incarnation life) {
  absl::MutexLock lock(&mutex_);
  granted_ = std::max(granted_, life);
}

absl::Status Membership::OnLeave(const TaskName& task, Incarnation incarnation, absl::string_view failure) {
  WEIR_RETURN_IF_ERROR(Renew(task, incarnation, State::kAlive));
  absl::MutexLock lock(&mutex_);
  KnownTask& peer = peers_[task];
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
    KnownTask* peer = nullptr;
    WEIR_RETURN_IF_ERROR(CheckSenderLocked(task, incarnation, &peer));
    const bool is_new = peer->incarnation != incarnation;
    if (is_new) {
      if (peer->incarnation != 0) EndEarlierLifeLocked(task, peer, &losses);
      peer->incarnation = incarnation;
      peer->is_leaving = false;
      peer->failure.clear();
      peer->alive_in_view = 0;
      is_new_guest = is_authority_ && guests_.IsGuest(task);
      if (is_new_guest) guests_.OnLife(task, incarnation);
      peer->place_until = absl::InfinitePast();
    }
    const absl::Time now = options_.environment->SteadyNow();
    // Others said that it is done, and it has been silent: so it was not.
    const bool is_refuted = !is_new && peer->is_hearsay;
    if (is_refuted || now > peer->reported_at + options_.lease + kLongestEnd) peer->reported_done = 0;
    if (is_new || is_refuted || (peer->state != State::kDone && peer->state != state)) {
      peer->state = state;
      peer->is_hearsay = false;
      NoteChangeLocked(peer);
      if (state == State::kDone) done.push_back({task, incarnation, absl::OkStatus()});
    }
    // Others do not let it in before they have heard of it.
    if (is_new_guest) last_loss_ = view_.number;
    peer->heard = now;
    peer->lease_end = peer->heard + options_.lease;
  }
  Report(losses);
  ReportDone(done);
  if (is_new_guest) TellNews();
  return absl::OkStatus();
}

absl::Status Membership::CheckSenderLocked(const TaskName& task, Incarnation incarnation, KnownTask** peer) {
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

void Membership::EndEarlierLifeLocked(const TaskName& task, KnownTask* peer, std::vector<Loss>* losses) {
  const bool had_left = peer->state == State::kLeft;
  EndLifeLocked(task, peer, State::kLost, std::string(kRestarted), losses);
  if (!had_left) return;
  losses->push_back(
      {task, peer->incarnation,
       absl::UnavailableError(absl::StrCat(task.ToString(), " has left, and another process is it now"))});
}

void Membership::EndLifeLocked(const TaskName& task, KnownTask* peer, State state, std::string why,
                               std::vector<Loss>* losses) {
  // One that was lost before is followed by a later one: what still waits for it waits in vain.
  if (peer->state == State::kAlive || peer->state == State::kLost) {
    losses->push_back({task, peer->incarnation, state == State::kLeft ? HasLeft(task) : Lost(task, why)});
  }
  peer->state = state;
  peer->is_hearsay = false;
  peer->why = std::move(why);
  peer->lost_since = options_.environment->SteadyNow();
  NoteChangeLocked(peer);
  if (is_authority_) last_loss_ = view_.number;
}

void Membership::LoseLocked(const TaskName& task, KnownTask* peer, std::string why,
                            std::vector<Loss>* losses) {
  if (!peer->failure.empty()) why = absl::StrCat("it has failed: ", peer->failure);
  const bool has_left =
      peer->is_leaving && peer->failure.empty() && IsTrainingJob(task.job) && task != chief_;
  EndLifeLocked(task, peer, has_left ? State::kLeft : State::kLost, std::move(why), losses);
  if (peer->reported_done != peer->incarnation) return;
  peer->state = State::kDone;
  peer->is_hearsay = true;
}

void Membership::NoteChangeLocked(KnownTask* peer) {
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

bool Membership::JudgesLocked(const TaskName& task, const KnownTask& peer) const {
  if (is_authority_ || task == authority_) return true;
  // While the authority is silent, or gathers, nobody says who is alive.
  return is_settled_ && HoldsLeaseLocked() && peer.alive_in_view != view_.authority;
}

void Membership::OnHeartbeatAnswered(absl::Time sent) {
  absl::MutexLock lock(&mutex_);
  answered_ = std::max(answered_, sent);
}

bool Membership::HoldsLeaseLocked() const {
  if (is_authority_) return options_.environment->SteadyNow() < office_until_;
  const auto authority = peers_.find(authority_);
  if (authority != peers_.end() && authority->second.state == State::kDone) return true;
  return options_.environment->SteadyNow() < answered_ + kHolds * options_.lease;
}

bool Membership::TakesOthersWord() const {
  absl::MutexLock lock(&mutex_);
  return !options_.names_are_proven || !is_settled_;
}

bool Membership::IsGathering() const {
  absl::MutexLock lock(&mutex_);
  return is_authority_ && !is_settled_;
}

bool Membership::HoldsLease() const {
  absl::MutexLock lock(&mutex_);
  return HoldsLeaseLocked();
}

void Membership::TellNews() const {
  std::function<void()> listener;
  {
    absl::MutexLock lock(&mutex_);
    listener = is_authority_ ? view_listener_ : news_listener_;
  }
  if (listener) listener();
}

void Membership::TellWatchers() const {
  std::function<void()> listener;
  {
    absl::MutexLock lock(&mutex_);
    listener = view_listener_;
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
  // Not TellNews: a heartbeat may have come here, which must not be called back when the office ends now.
  if (is_authority_) TellWatchers();
}

std::vector<TaskName> Membership::tasks() const {
  absl::MutexLock lock(&mutex_);
  std::vector<TaskName> tasks;
  for (const auto& [task, peer] : peers_) tasks.push_back(task);
  return tasks;
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
    const bool is_asked =
        !guests_.IsGuest(task) || !IsGoneForGood(peer, options_.lease, options_.environment->SteadyNow());
    if (peer.state == State::kLost && is_asked) lost.push_back(task);
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

bool Membership::IsAlive(const TaskName& task, Incarnation life) const {
  absl::MutexLock lock(&mutex_);
  const auto it = peers_.find(task);
  return it != peers_.end() && it->second.incarnation == life && it->second.state == State::kAlive;
}

absl::Status Membership::LossOf(const TaskName& task, Incarnation life) const {
  absl::MutexLock lock(&mutex_);
  const auto it = peers_.find(task);
  if (it == peers_.end() || life == 0 || life > it->second.incarnation) return absl::OkStatus();
  if (life < it->second.incarnation) return Lost(task, kRestarted);
  if (it->second.state == State::kLeft) return HasLeft(task);
  return it->second.state == State::kLost ? Lost(task, it->second.why) : absl::OkStatus();
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

bool Membership::is_serving() const {
  absl::MutexLock lock(&mutex_);
  if (is_stopped_ || !superseded_.ok() || EndLocked().HasEnded()) return false;
  if (leave_by_ == absl::InfiniteFuture()) return true;
  return options_.environment->Now() < leave_by_ && !EndLocked().RunningTasks().empty();
}

std::string Membership::DescribeAwaitedChief() const {
  absl::MutexLock lock(&mutex_);
  return EndLocked().DescribeAwaitedChief();
}

std::vector<TaskName> Membership::RunningTasks() const {
  absl::MutexLock lock(&mutex_);
  return EndLocked().RunningTasks();
}

bool Membership::AwaitEndOfJob(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || !superseded_.ok() || EndLocked().HasEnded() || leave_by_ < absl::InfiniteFuture();
  };
  options_.environment->Await(mutex_, absl::Condition(&is_over), deadline);
  const auto may_leave = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || !superseded_.ok() || EndLocked().HasEnded() || EndLocked().RunningTasks().empty();
  };
  // Without a request nothing is left to wait for here: the deadline has passed, or the condition holds.
  if (leave_by_ < absl::InfiniteFuture()) {
    options_.environment->Await(mutex_, absl::Condition(&may_leave), std::min(deadline, leave_by_));
  }
  return EndLocked().HasEnded();
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
