#include "distributed/transport/pending_reply.h"

#include <utility>

namespace weir {

bool PendingReply::BeginReply() {
  std::function<void()> dropped;  // destroyed after the lock: it may hold the call
  absl::MutexLock lock(&mutex_);
  dropped.swap(on_given_up_);
  return !std::exchange(has_replied_, true);
}

void PendingReply::OnGivenUp(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (has_replied_) return;
    if (!is_given_up_) {
      on_given_up_.swap(callback);
      return;
    }
  }
  callback();
}

void PendingReply::GiveUp() {
  std::function<void()> callback;
  {
    absl::MutexLock lock(&mutex_);
    is_given_up_ = true;
    callback.swap(on_given_up_);
  }
  if (callback) callback();
}

}  // namespace weir
