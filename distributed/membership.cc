#include "distributed/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/incarnation.h"

namespace weir {
namespace {

std::string Hex(Incarnation incarnation) { return absl::StrFormat("%x", incarnation); }

}  // namespace

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)),
      incarnation_(NewIncarnation(*options_.environment)),
      last_check_(options_.environment->SteadyNow()) {
  for (const TaskName& task : options_.cluster.tasks()) peers_[task] = Peer();
}

Incarnation Membership::incarnation() const {
  absl::MutexLock lock(&mutex_);
  return incarnation_;
}

void Membership::Rejoin() {
  absl::MutexLock lock(&mutex_);
  incarnation_ = NewIncarnation(*options_.environment);
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
    return absl::InvalidArgumentError(absl::StrCat("a message came from ", task.ToString(), " (incarnation ",
                                                   Hex(incarnation), "), which is no task of the cluster of ",
                                                   options_.self.ToString()));
  }
  *peer = &it->second;
  const std::deque<Incarnation>& past = (*peer)->past;
  if (std::find(past.begin(), past.end(), incarnation) == past.end()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("a message of ", task.ToString(), " was refused by ",
                                         options_.self.ToString(), ": its incarnation ", Hex(incarnation),
                                         " was declared lost"));
}

void Membership::EndLifeLocked(const TaskName& task, Peer* peer, std::string why, std::vector<Loss>* losses) {
  if (peer->state == State::kAlive) {
    losses->push_back(
        {task, peer->incarnation, absl::UnavailableError(absl::StrCat(task.ToString(), " was lost: ", why))});
  }
  peer->past.push_back(peer->incarnation);
  if (peer->past.size() > kRememberedLives) peer->past.pop_front();
  peer->state = State::kLost;
}

absl::Status Membership::CheckAddressee(Incarnation incarnation) const {
  absl::MutexLock lock(&mutex_);
  if (incarnation == 0 || incarnation == incarnation_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(options_.self.ToString(),
                                         " has restarted: a message was meant for incarnation ",
                                         Hex(incarnation), ", this is ", Hex(incarnation_)));
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
  return somebody_done;
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
    return is_stopped_ || HasEndedLocked() || leave_by_ < absl::InfiniteFuture();
  };
  options_.environment->Await(mutex_, absl::Condition(&is_over), deadline);
  const auto may_leave = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || HasEndedLocked() || RunningTasksLocked().empty();
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
