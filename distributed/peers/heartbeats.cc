#include "distributed/peers/heartbeats.h"

#include <utility>

#include "distributed/peers/worker_protocol.h"

namespace weir {

Heartbeats::Heartbeats(Peers& peers, std::set<TaskName> watched, absl::Duration interval)
    : peers_(peers), watched_(std::move(watched)), interval_(interval) {
  peers_.timers().At(absl::InfinitePast(), [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

Heartbeats::~Heartbeats() {
  absl::MutexLock lock(&state_->mutex);
  state_->is_stopped = true;
}

void Heartbeats::Beat() {
  std::set<TaskName> peers = peers_.contacted();
  peers.insert(watched_.begin(), watched_.end());
  for (const TaskName& peer : peers) {
    if (peers_.membership().state(peer) != Membership::State::kDone) Send(peer);
  }
  peers_.membership().CheckLeases();
  peers_.timers().At(peers_.environment().Now() + interval_, [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

void Heartbeats::Send(const TaskName& peer) {
  Membership& membership = peers_.membership();
  const Incarnation mine = membership.incarnation();
  PeerCallOptions options;
  options.deadline = peers_.environment().Now() + 2 * interval_;
  options.any_life = true;
  options.retry_for = absl::ZeroDuration();
  peers_.Call(peer, kHeartbeatMethod, "", {}, options, [&membership, mine](absl::StatusOr<PeerReply> reply) {
    // Meant for any life of the peer, so this is about ours.
    if (absl::IsAborted(reply.status()) && membership.incarnation() == mine) membership.Rejoin();
  });
}

}  // namespace weir
