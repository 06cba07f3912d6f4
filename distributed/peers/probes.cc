#include "distributed/peers/probes.h"

#include "absl/strings/str_cat.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/call_errors.h"

namespace weir {

Probes::Probes(Peers& peers) : peers_(peers) {
  absl::MutexLock lock(&state_->mutex);
  state_->owner = this;
}

void Probes::Stop() {
  absl::MutexLock lock(&state_->mutex);
  state_->owner = nullptr;
}

void Probes::Look(const TaskName& task, Incarnation life, Then then) {
  const Membership& membership = peers_.membership();
  const bool is_alive = membership.IsAlive(task, life);
  if (!is_alive || membership.is_leaving(task)) {
    if (then) then(is_alive ? Finding::kUnknown : Finding::kGone);
    return;
  }
  const Key key(task, life);
  {
    absl::MutexLock lock(&mutex_);
    const auto [probe, is_new] = probes_.try_emplace(key);
    if (then) probe->second.asked.push_back(std::move(then));
    if (!is_new) return;
    probe->second.end = peers_.environment().Now() + kLongest;
  }
  Attempt(key);
}

void Probes::Attempt(const Key& key) {
  PeerCallOptions options;
  {
    absl::MutexLock lock(&mutex_);
    options.deadline = probes_.at(key).end;
  }
  options.retry_for = absl::ZeroDuration();
  // Meant for the life that membership knows. Told on the timer thread, where nothing else is held.
  peers_.Call(key.first, kHeartbeatMethod, "", {}, options,
              [state = state_, &peers = peers_, key](const absl::StatusOr<PeerReply>& reply) {
                peers.timers().At(absl::InfinitePast(), [state, key, status = reply.status()] {
                  absl::MutexLock lock(&state->mutex);
                  if (state->owner != nullptr) state->owner->OnReply(key, status);
                });
              });
}

void Probes::OnReply(const Key& key, const absl::Status& status) {
  const std::string address = peers_.AddressOf(key.first);
  Membership& membership = peers_.membership();
  if (status.ok()) return Finish(key, Finding::kThere);
  if (absl::IsAborted(status)) {
    membership.OnGone(key.first, key.second,
                      absl::StrCat("its process is gone: another one answers at ", address));
    return Finish(key, Finding::kGone);
  }
  const absl::Time now = peers_.environment().Now();
  const bool is_refused = IsConnectionRefused(status);
  bool was_refused = false, is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    Probe& probe = probes_.at(key);
    was_refused = probe.refused != absl::InfiniteFuture();
    // Whoever is heard after a refusal was there.
    if (was_refused && membership.last_heard(key.first) >= probe.refused) was_refused = false;
    if (is_refused && !was_refused) probe.refused = peers_.environment().SteadyNow();
    is_over = now + kAgain >= probe.end || !absl::IsUnavailable(status);
  }
  if (is_refused && was_refused) {
    membership.OnGone(key.first, key.second,
                      absl::StrCat("its process is gone: ", address, " refuses connections"));
    return Finish(key, Finding::kGone);
  }
  if (is_over) return Finish(key, Finding::kUnknown);
  peers_.timers().At(now + kAgain, [state = state_, key] {
    absl::MutexLock lock(&state->mutex);
    if (state->owner != nullptr) state->owner->Attempt(key);
  });
}

void Probes::Finish(const Key& key, Finding finding) {
  std::vector<Then> asked;
  {
    absl::MutexLock lock(&mutex_);
    asked = std::move(probes_.at(key).asked);
    probes_.erase(key);
  }
  for (const Then& then : asked) then(finding);
}

}  // namespace weir
