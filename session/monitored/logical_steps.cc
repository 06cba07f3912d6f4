#include "session/monitored/logical_steps.h"

namespace weir {

void LogicalSteps::Call::Settle() {
  absl::MutexLock lock(&steps_.mutex_);
  for (const int64_t number : numbers_) steps_.unsettled_.erase(number);
}

LogicalStep LogicalSteps::Call::Next() {
  if (steps_.writer_ == 0) return {};
  absl::MutexLock lock(&steps_.mutex_);
  if (num_begun_ == numbers_.size()) {
    numbers_.push_back(steps_.next_++);
    steps_.unsettled_.insert(numbers_.back());
  }
  return {steps_.writer_, numbers_[num_begun_++], *steps_.unsettled_.begin()};
}

LogicalStep LogicalSteps::Oldest() const {
  if (writer_ == 0) return {};
  absl::MutexLock lock(&mutex_);
  const int64_t oldest = unsettled_.empty() ? next_ : *unsettled_.begin();
  return {writer_, oldest, oldest};
}

LogicalStep LogicalSteps::Next() const {
  if (writer_ == 0) return {};
  absl::MutexLock lock(&mutex_);
  return {writer_, next_, unsettled_.empty() ? next_ : *unsettled_.begin()};
}

}  // namespace weir
