#include "distributed/peers/delivered_messages.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace weir {

absl::StatusOr<DeliveredMessages::State> DeliveredMessages::Begin(Incarnation sender,
                                                                  const MessageNumber& message) {
  absl::MutexLock lock(&mutex_);
  Sender& known = senders_[sender];
  if (senders_.size() > kMaxSenders) {
    const auto oldest = senders_.begin();
    senders_.erase(oldest->first == sender ? std::next(oldest) : oldest);
  }
  if (message.answered_below > known.answered_below) {
    known.answered_below = message.answered_below;
    known.states.erase(known.states.begin(), known.states.lower_bound(message.answered_below));
  }
  if (message.number < known.answered_below) return State::kDelivered;
  if (const auto it = known.states.find(message.number); it != known.states.end()) return it->second;
  if (known.states.size() >= kMaxUnanswered) {
    return absl::ResourceExhaustedError(absl::StrCat("message ", message.number, " came while ",
                                                     known.states.size(),
                                                     " earlier ones of its sender are not answered"));
  }
  known.states.emplace(message.number, State::kUnderWay);
  return State::kNew;
}

void DeliveredMessages::End(Incarnation sender, uint64_t number, bool is_delivered) {
  absl::MutexLock lock(&mutex_);
  const auto known = senders_.find(sender);
  if (known == senders_.end()) return;
  const auto state = known->second.states.find(number);
  if (state == known->second.states.end()) return;
  if (is_delivered) {
    state->second = State::kDelivered;
  } else {
    known->second.states.erase(state);
  }
}

void DeliveredMessages::Forget(Incarnation sender) {
  absl::MutexLock lock(&mutex_);
  senders_.erase(sender);
}

}  // namespace weir
