#include "distributed/collectives/exchange.h"

namespace weir {

void Exchange::Finish(absl::Status outcome) {
  Done done;
  uint64_t callback = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (done_ == nullptr || outcome_.has_value()) return;
    if (!is_registered_) {
      outcome_ = std::move(outcome);
      return;
    }
    done = std::exchange(done_, nullptr);
    callback = std::exchange(callback_, 0);
  }
  if (cancellation_ != nullptr) cancellation_->Remove(callback);
  done(outcome, *collective);
}

void Exchange::Register(std::function<void(const absl::Status&)> end) {
  const uint64_t callback = cancellation_ == nullptr ? 0 : cancellation_->OnCancel(std::move(end));
  std::optional<absl::Status> outcome;
  {
    absl::MutexLock lock(&mutex_);
    callback_ = callback;
    is_registered_ = true;
    outcome = std::exchange(outcome_, std::nullopt);
  }
  if (outcome) Finish(*std::move(outcome));
}

void Exchange::Push(Collective::Outgoing part) {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return;
  ++num_unanswered_;
  lanes_[part.to].Push(std::move(part));
}

std::optional<Lane::Sent> Exchange::NextTo(int rank, ByteBudget* budget) {
  absl::MutexLock lock(&mutex_);
  return lanes_[rank].Next(budget);
}

void Exchange::OnAnswer(int rank, const Lane::Sent& sent) {
  absl::MutexLock lock(&mutex_);
  if (!sent.is_announcement) --num_unanswered_;
  lanes_[rank].OnAnswer(sent);
}

void Exchange::CloseLanes() {
  absl::MutexLock lock(&mutex_);
  is_closed_ = true;
  for (Lane& lane : lanes_) lane.Close();
}

bool Exchange::is_complete() const {
  if (!collective->is_complete()) return false;
  absl::MutexLock lock(&mutex_);
  return has_started_ && num_takes_ == 0 && (!options.waits_for_receivers || num_unanswered_ == 0);
}

std::vector<int> Exchange::Receivers() const {
  std::vector<int> receivers;
  absl::MutexLock lock(&mutex_);
  for (size_t rank = 0; rank < lanes_.size(); ++rank) {
    if (!lanes_[rank].is_idle()) receivers.push_back(static_cast<int>(rank));
  }
  return receivers;
}

void Exchange::BeginTake() {
  absl::MutexLock lock(&mutex_);
  ++num_takes_;
}

void Exchange::EndTake() {
  absl::MutexLock lock(&mutex_);
  --num_takes_;
}

bool Exchange::Hold(Reply* reply) {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return false;
  held_.push_back(std::move(*reply));
  return true;
}

std::vector<Exchange::Reply> Exchange::TakeHeld() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(held_, {});
}

void Exchange::SetStarted() {
  absl::MutexLock lock(&mutex_);
  has_started_ = true;
}

bool Exchange::has_started() const {
  absl::MutexLock lock(&mutex_);
  return has_started_;
}

}  // namespace weir
