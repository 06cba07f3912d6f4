#include "kernels/cancellation.h"

#include <iterator>
#include <map>
#include <utility>

namespace weir {
namespace {
// The token whose callbacks this thread is running: a callback may remove others without waiting for itself.
thread_local const Cancellation* cancelling = nullptr;
}  // namespace

absl::Status Cancellation::reason() const {
  absl::MutexLock lock(&mutex_);
  return reason_;
}

void Cancellation::Cancel(absl::Status reason) {
  std::map<uint64_t, Callback> callbacks;  // in the order in which they came
  {
    absl::MutexLock lock(&mutex_);
    if (!reason_.ok()) return;
    reason_ = reason;
    cancelled_.store(true, std::memory_order_release);
    callbacks.insert(std::make_move_iterator(callbacks_.begin()), std::make_move_iterator(callbacks_.end()));
    callbacks_.clear();
    running_callbacks_ = true;
  }
  const Cancellation* outer = std::exchange(cancelling, this);
  for (auto& [id, callback] : callbacks) callback(reason);
  cancelling = outer;
  absl::MutexLock lock(&mutex_);
  running_callbacks_ = false;
}

uint64_t Cancellation::OnCancel(Callback callback) {
  absl::Status reason;
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) {
      const uint64_t id = next_id_++;
      callbacks_.emplace(id, std::move(callback));
      return id;
    }
    reason = reason_;
  }
  callback(reason);
  return 0;
}

void Cancellation::Remove(uint64_t id) {
  if (id == 0) return;
  absl::MutexLock lock(&mutex_);
  if (callbacks_.erase(id) == 1 || cancelling == this) return;
  mutex_.Await(absl::Condition(
      +[](bool* running) { return !*running; }, &running_callbacks_));
}

void Cancellation::Reset() {
  absl::MutexLock lock(&mutex_);
  cancelled_.store(false, std::memory_order_release);
  reason_ = absl::OkStatus();
}

}  // namespace weir
