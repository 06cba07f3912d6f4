#include "session/step_owners.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir {

void StepOwners::Add(uint64_t plan, std::weak_ptr<StepOwner> owner) {
  absl::MutexLock lock(&mutex_);
  owners_[plan] = std::move(owner);
}

void StepOwners::Remove(uint64_t plan) {
  absl::MutexLock lock(&mutex_);
  owners_.erase(plan);
}

bool StepOwners::FailStep(uint64_t plan, int64_t step_id, const DeviceName& by, const absl::Status& reason) {
  std::shared_ptr<StepOwner> owner;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = owners_.find(plan);
    if (found == owners_.end()) return false;
    owner = found->second.lock();
  }
  if (owner != nullptr) owner->FailStep(step_id, by, reason);
  return true;
}

void StepOwners::FailRunningSteps(const DeviceName* task, const absl::Status& reason) {
  std::vector<std::pair<uint64_t, std::shared_ptr<StepOwner>>> owners;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [plan, owner] : owners_) owners.emplace_back(plan, owner.lock());
  }
  std::sort(owners.begin(), owners.end());  // one order, whatever the table's
  for (const auto& [plan, owner] : owners) {
    if (owner != nullptr) owner->FailRunningSteps(task, reason);
  }
}

}  // namespace weir
