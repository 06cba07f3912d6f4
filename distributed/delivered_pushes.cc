#include "distributed/delivered_pushes.h"

namespace weir {

DeliveredPushes::State DeliveredPushes::Begin(const Push& push) {
  absl::MutexLock lock(&mutex_);
  const auto [known, is_new] = states_.try_emplace(push, State::kUnderWay);
  if (!is_new) return known->second;
  order_.push_back(push);
  if (order_.size() > kRemembered) {
    states_.erase(order_.front());
    order_.pop_front();
  }
  return State::kNew;
}

void DeliveredPushes::End(const Push& push, bool is_delivered) {
  absl::MutexLock lock(&mutex_);
  const auto known = states_.find(push);
  if (known == states_.end()) return;
  if (is_delivered) {
    known->second = State::kDelivered;
  } else {
    states_.erase(known);
  }
}

}  // namespace weir
