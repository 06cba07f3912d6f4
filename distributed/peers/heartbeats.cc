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
  SendAll();
  peers_.membership().CheckLeases();
  peers_.CloseRetiredChannels();
  peers_.timers().At(peers_.environment().Now() + interval_, [this, state = state_] {
    absl::MutexLock lock(&state->mutex);
    if (!state->is_stopped) Beat();
  });
}

void Heartbeats::SendAll() {
  const Membership& membership = peers_.membership();
  const TaskName& authority = membership.authority();
  const bool has_joined = membership.incarnation() != 0;
  if (membership.self() != authority) Join();
  if (!has_joined) return;
  std::set<TaskName> peers = peers_.contacted();
  peers.insert(watched_.begin(), watched_.end());
  peers.erase(authority);
  for (const TaskName& peer : peers) {
    if (membership.state(peer) != Membership::State::kDone) Send(peer);
  }
}

void Heartbeats::Join() {
  const Membership& membership = peers_.membership();
  const TaskName& authority = membership.authority();
  const bool has_joined = membership.incarnation() != 0;
  if (has_joined && membership.state(authority) == Membership::State::kDone) return;
  WireWriter writer;
  EncodeJoin({membership.highest_known(), membership.incarnation_of(authority), membership.age()}, &writer);
  PeerCallOptions options;
  options.deadline = peers_.environment().Now() + 2 * interval_;
  options.wait_for_ready = !has_joined;  // it may still be starting
  options.any_life = true;
  options.before_own_life = true;
  options.retry_for = absl::ZeroDuration();
  Peers& peers = peers_;
  // On the timer thread, where nothing else is held: an error may be told before Call returns.
  const auto take = [this, &peers, state = state_](Incarnation life) {
    peers.timers().At(absl::InfinitePast(), [this, state, life] {
      absl::MutexLock lock(&state->mutex);
      if (!state->is_stopped) OnJoined(life);
    });
  };
  peers_.Call(authority, kJoinMethod, writer.Take(), {}, options, [take](absl::StatusOr<PeerReply> reply) {
    if (!reply.ok()) return;  // asked again with the next beat
    WireReader reader(reply->header());
    if (const absl::StatusOr<Incarnation> life = DecodeJoinReply(&reader); life.ok()) take(*life);
  });
}

void Heartbeats::OnJoined(Incarnation life) {
  if (peers_.membership().incarnation() != 0) return;  // asked twice
  peers_.membership().SetIncarnation(life);
  peers_.OnJoined();
  SendAll();
}

void Heartbeats::Send(const TaskName& peer) {
  PeerCallOptions options;
  options.deadline = peers_.environment().Now() + 2 * interval_;
  options.any_life = true;
  options.retry_for = absl::ZeroDuration();
  peers_.Call(peer, kHeartbeatMethod, "", {}, options, [](absl::StatusOr<PeerReply>) {});
}

}  // namespace weir
