#include "distributed/step_failures.h"

#include "distributed/peers/worker_protocol.h"

namespace weir {

void StepFailures::RememberOwner(PlanId plan, const TaskName& owner) {
  absl::MutexLock lock(&mutex_);
  if (owners_.insert_or_assign(plan, owner).second) dropped_.push_back(plan);
  if (dropped_.size() <= kRemembered) return;
  owners_.erase(dropped_.front());
  dropped_.pop_front();
}

std::optional<TaskName> StepFailures::OwnerOf(PlanId plan) const {
  absl::MutexLock lock(&mutex_);
  const auto found = owners_.find(plan);
  return found == owners_.end() ? std::nullopt : std::optional<TaskName>(found->second);
}

void StepFailures::Tell(const TaskName& owner, PlanId plan, int64_t step_id, const absl::Status& reason) {
  {
    absl::MutexLock lock(&under_way_->mutex);
    if (!under_way_->steps.emplace(plan, step_id).second) return;
  }
  WireWriter writer;
  EncodeCancel(plan, step_id, reason, &writer);
  peers_.Call(owner, kFailStepMethod, writer.Take(), {},
              {.deadline = peers_.environment().Now() + kNoticeTime,
               .outlives_silence = true,
               .retry_for = kNoticeTime},
              [under_way = under_way_, plan, step_id](const absl::StatusOr<PeerReply>&) {
                absl::MutexLock lock(&under_way->mutex);
                under_way->steps.erase({plan, step_id});
              });
}

}  // namespace weir
