#include "session/step_owners.h"

#include <utility>

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

}  // namespace weir
