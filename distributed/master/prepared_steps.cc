#include "distributed/master/prepared_steps.h"

#include <utility>

namespace weir {

std::shared_ptr<PreparedStep> PreparedSteps::Find(absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  const auto known = known_.find(key);
  if (known == known_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->step;
}

void PreparedSteps::Add(std::string key, std::shared_ptr<PreparedStep> step, PeerUse::Share room) {
  std::list<Entry> dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  if (is_closed_ || known_.contains(key)) return;
  entries_.push_front({std::move(key), std::move(step), std::move(room)});
  known_.emplace(entries_.front().key, entries_.begin());
  if (entries_.size() <= kMaxSteps) return;
  known_.erase(entries_.back().key);
  dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
}

void PreparedSteps::Close() {
  std::list<Entry> dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  is_closed_ = true;
  known_.clear();
  dropped.swap(entries_);
}

}  // namespace weir
