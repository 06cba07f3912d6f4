#include "kernels/cancellation.h"

#include <iterator>
#include <map>
#include <utility>

namespace weir {
namespace {

// A call of Cancel on this thread, and the one whose callback made it: a callback may remove others, of each
// of these tokens, without waiting for itself.
struct Cancelling {
  const Cancellation* token;
  std::map<uint64_t, Cancellation::Callback>* left;  // in the order in which they came
  Cancelling* outer;
};
thread_local Cancelling* innermost = nullptr;

// Each token has ids of its own: whoever comes late with an id of one that is gone does not remove a callback
// of the one that is in its place.
std::atomic<uint64_t> num_tokens{0};

Cancelling* FindOnThisThread(const Cancellation* token) {
  Cancelling* found = innermost;
  while (found != nullptr && found->token != token) found = found->outer;
  return found;
}

}  // namespace

absl::Status Cancellation::reason() const {
  absl::MutexLock lock(&mutex_);
  return reason_;
}

void Cancellation::Cancel(absl::Status reason) {
  std::map<uint64_t, Callback> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    if (!reason_.ok()) return;
    reason_ = reason;
    cancelled_.store(true, std::memory_order_release);
    callbacks.insert(std::make_move_iterator(callbacks_.begin()), std::make_move_iterator(callbacks_.end()));
    callbacks_.clear();
    running_callbacks_ = true;
  }
  Cancelling here = {this, &callbacks, innermost};
  innermost = &here;
  while (!callbacks.empty()) {
    auto next = callbacks.extract(callbacks.begin());
    next.mapped()(reason);
  }
  innermost = here.outer;
  absl::MutexLock lock(&mutex_);
  running_callbacks_ = false;
}

uint64_t Cancellation::OnCancel(Callback callback) {
  absl::Status reason;
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) {
      if (next_id_ == 1) next_id_ = ++num_tokens << 32;
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
  Callback removed;  // destroyed without the lock: it may hold what has callbacks here itself
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = callbacks_.find(id); found != callbacks_.end()) {
      removed = std::move(found->second);
      callbacks_.erase(found);
      return;
    }
  }
  if (Cancelling* const here = FindOnThisThread(this)) {
    const auto dropped = here->left->extract(id);
    return;
  }
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](bool* running) { return !*running; }, &running_callbacks_));
}

void Cancellation::Reset() {
  absl::flat_hash_map<uint64_t, Callback> forgotten;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  forgotten.swap(callbacks_);
  cancelled_.store(false, std::memory_order_release);
  reason_ = absl::OkStatus();
}

}  // namespace weir
