#include "distributed/peers/inbound_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "distributed/machine_memory.h"

namespace weir {

void InboundWindow::EncodeTo(WireWriter* writer) const {
  writer->Unsigned(number);
  writer->Unsigned(static_cast<uint64_t>(bytes));
}

InboundWindow InboundWindow::DecodeFrom(WireReader* reader) {
  const uint64_t number = reader->Unsigned(), bytes = reader->Unsigned();
  const bool is_one = reader->ok() && bytes > 0 && bytes <= static_cast<uint64_t>(InboundBudget::kMostWindow);
  return is_one ? InboundWindow{number, static_cast<int64_t>(bytes)} : InboundWindow();
}

InboundBudget::InboundBudget(int64_t bytes, Environment& environment)
    : bytes_(bytes > 0 ? bytes : HalfOfMemory() / 4), environment_(environment) {}

InboundBudget::Sender& InboundBudget::FindOrAddLocked(Incarnation sender) {
  const auto [found, is_new] = state_->senders.try_emplace(sender);
  if (is_new) {
    state_->granted += found->second.may_have;
    found->second.place = state_->by_use.insert(state_->by_use.end(), sender);
  }
  return found->second;
}

void InboundBudget::NoteUseLocked(Sender* sender) const {
  sender->last_use = environment_.SteadyNow();
  state_->by_use.splice(state_->by_use.end(), state_->by_use, sender->place);
}

void InboundBudget::ForgetLocked(Incarnation sender) const {
  const auto found = state_->senders.find(sender);
  if (found == state_->senders.end()) return;
  state_->granted -= found->second.may_have;
  state_->by_use.erase(found->second.place);
  state_->senders.erase(found);
}

void InboundBudget::ForgetTheIdleLocked() const {
  const absl::Time idle_since = environment_.SteadyNow() - kForgottenAfter;
  while (!state_->by_use.empty()) {
    Sender& first = state_->senders.at(state_->by_use.front());
    if (first.last_use >= idle_since) return;
    if (first.arrived > 0) {
      NoteUseLocked(&first);  // it waits, and is not idle
    } else {
      ForgetLocked(state_->by_use.front());
    }
  }
}

absl::StatusOr<InboundBudget::Arrival> InboundBudget::Arrive(Incarnation sender, int64_t num_bytes) {
  absl::MutexLock lock(&state_->mutex);
  ForgetTheIdleLocked();
  Sender& known = FindOrAddLocked(sender);
  NoteUseLocked(&known);
  if (known.arrived > 0 && num_bytes > known.may_have - known.arrived) {
    ++state_->refused;
    return absl::UnavailableError(absl::StrCat(
        "a message with ", num_bytes, " bytes of tensors came while ", known.arrived,
        " of the same sender wait for their delivery: it may have ", known.may_have, " under way"));
  }
  known.arrived += num_bytes;
  return Arrival(state_, sender, num_bytes);
}

InboundWindow InboundBudget::Answer(Incarnation sender, int64_t num_bytes) {
  absl::MutexLock lock(&state_->mutex);
  ForgetTheIdleLocked();
  const auto found = state_->senders.find(sender);
  if (found == state_->senders.end()) return {};  // it is over
  Sender& known = found->second;
  NoteUseLocked(&known);
  const int64_t share = std::max<int64_t>(1, bytes_ / static_cast<int64_t>(state_->senders.size()));
  const int64_t left = bytes_ - (state_->granted - known.may_have);
  const int64_t window = std::max(std::min({share, left, kMostWindow}), std::min(share, kLeastWindow));
  const int64_t may_have = std::max(window, known.may_have - num_bytes);
  state_->granted += may_have - known.may_have;
  known.may_have = may_have;
  return {++state_->last_number, window};
}

void InboundBudget::Forget(Incarnation sender) {
  absl::MutexLock lock(&state_->mutex);
  ForgetLocked(sender);
}

InboundBudget::Arrival::~Arrival() {
  if (state_ == nullptr) return;
  absl::MutexLock lock(&state_->mutex);
  const auto found = state_->senders.find(sender_);
  // It may have been forgotten, and have come again late.
  if (found != state_->senders.end()) {
    found->second.arrived = std::max<int64_t>(0, found->second.arrived - num_bytes_);
  }
}

InboundBudget::Use InboundBudget::use() const {
  absl::MutexLock lock(&state_->mutex);
  ForgetTheIdleLocked();
  Use use{.budget = bytes_, .granted = state_->granted, .refused = state_->refused};
  use.senders = static_cast<int64_t>(state_->senders.size());
  for (const auto& [life, sender] : state_->senders) use.arrived += sender.arrived;
  return use;
}

}  // namespace weir
