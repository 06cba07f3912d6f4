#include "distributed/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

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

}  // namespace

uint64_t TermAt(absl::Time now) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(now) >> 12, 1));
}

std::string LifeString(Incarnation life) {
  return absl::StrFormat("%x.%x", TermOf(life), life & ((Incarnation{1} << kSerialBits) - 1));
}

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
      started_(options_.environment->SteadyNow()),
      last_check_(started_) {
  for (const TaskName& task : options_.cluster.tasks()) peers_[task] = Peer();
  if (authority_ == options_.self || !peers_.contains(options_.self)) {
    incarnation_ = FirstLifeOfTerm(TermAt(options_.environment->Now()));
  }
}

Incarnation Membership::incarnation() const {
  absl::MutexLock lock(&mutex_);
  return incarnation_;
}

void Membership::SetIncarnation(Incarnation life) {
  absl::MutexLock lock(&mutex_);
  incarnation_ = life;
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
  if (!IsSuperseded(status)) return;
  std::vector<SupersededListener> listeners;
  {
    absl::MutexLock lock(&mutex_);
    if (!superseded_.ok() || SupersededLife(status) != LifeOf(options_.self, incarnation_)) return;
    superseded_ = status;
    listeners = superseded_listeners_;
  }
  for (const SupersededListener& listener : listeners) listener(status);
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

absl::Status Membership::OnSignOfLife(const TaskName& task, Incarnation incarnation) {
  return Renew(task, incarnation, State::kAlive);
}

absl::Status Membership::OnDone(const TaskName& task, Incarnation incarnation) {
  return Renew(task, incarnation, State::kDone);
}

absl::Status Membership::OnLeave(const TaskName& task, Incarnation incarnation) {
  WEIR_RETURN_IF_ERROR(Renew(task, incarnation, State::kAlive));
  absl::MutexLock lock(&mutex_);
  Peer& peer = peers_[task];
  if (peer.incarnation == incarnation) peer.is_leaving = true;
  return absl::OkStatus();
}

absl::Status Membership::Renew(const TaskName& task, Incarnation incarnation, State state) {
  if (const Incarnation mine = this->incarnation();
      task == options_.self && mine != 0 && incarnation > mine) {
    Supersede(incarnation, task);
    return absl::UnavailableError(superseded().message());
  }
  std::vector<Loss> losses;
  {
    absl::MutexLock lock(&mutex_);
    Peer* peer = nullptr;
    WEIR_RETURN_IF_ERROR(CheckSenderLocked(task, incarnation, &peer));
    if (peer->incarnation != incarnation) {
      if (peer->incarnation != 0) EndLifeLocked(task, peer, "it restarted", &losses);
      peer->incarnation = incarnation;
      peer->is_leaving = false;
      peer->state = state;
    } else if (peer->state != State::kDone) {
      peer->state = state;
    }
    peer->lease_end = options_.environment->SteadyNow() + options_.lease;
  }
  Report(losses);
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
  if (incarnation >= it->second.incarnation) return absl::OkStatus();
  return Superseded(task, incarnation, it->second.incarnation, options_.self);
}

void Membership::EndLifeLocked(const TaskName& task, Peer* peer, std::string why, std::vector<Loss>* losses) {
  if (peer->state == State::kAlive) {
    losses->push_back(
        {task, peer->incarnation, absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", why))});
  }
  peer->state = State::kLost;
  peer->lost_since = options_.environment->SteadyNow();
}

absl::Status Membership::Admit(const TaskName& sender, Incarnation life, Incarnation addressee) {
  WEIR_RETURN_IF_ERROR(OnSignOfLife(sender, life));
  return CheckAddressee(addressee);
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
    for (auto& [task, peer] : peers_) {
      if (peer.state != State::kAlive) continue;
      if (was_stopped) {
        peer.lease_end = now + options_.lease;
      } else if (peer.lease_end <= now) {
        EndLifeLocked(task, &peer, absl::StrCat("no sign of life for ", absl::FormatDuration(options_.lease)),
                      &losses);
      }
    }
  }
  Report(losses);
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
}

bool Membership::HasTask(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  return peers_.contains(task);
}

Membership::State Membership::state(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it == peers_.end() ? State::kUnknown : it->second.state;
}

Incarnation Membership::incarnation_of(const TaskName& task) const {
  absl::MutexLock lock(&mutex_);
  auto it = peers_.find(task);
  return it == peers_.end() ? 0 : it->second.incarnation;
}

bool Membership::HasEndedLocked() const {
  bool somebody_done = false;
  for (const auto& [task, peer] : peers_) {
    if (!IsTrainingJob(task.job)) continue;
    if (peer.state == State::kAlive || peer.state == State::kUnknown) return false;
    somebody_done = somebody_done || peer.state == State::kDone;
  }
  return somebody_done && ChiefGivenUpAtLocked() <= options_.environment->SteadyNow();
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
