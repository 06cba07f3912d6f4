// Tells owners in other processes that a step of theirs has failed here.
//
// What a part sends may be lost after the part was answered: then nobody else tells the step's owner, which
// waits for the tensor. That is also so when this task has just dropped the owner's plan, because the owner
// was silent for a lease: it may live, and wait. So the owners of plans that were dropped are remembered, the
// last kRemembered.
//
// An owner is told until it answers, until a later life of it is known, or for kNoticeTime.
//
// Thread safety: all methods. Borrows `peers`; its calls may outlive this object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/peers/peers.h"
#include "distributed/task_name.h"
#include "session/worker.h"

namespace weir {

class StepFailures {
 public:
  static constexpr size_t kRemembered = 4096;
  static constexpr absl::Duration kNoticeTime = absl::Minutes(5);

  explicit StepFailures(Peers& peers) : peers_(peers) {}

  // The plan was dropped here because its owner was lost.
  void RememberOwner(PlanId plan, const TaskName& owner);
  // Of a plan that was dropped; nothing when it is not remembered.
  std::optional<TaskName> OwnerOf(PlanId plan) const;

  // Nothing when it is just being told that.
  void Tell(const TaskName& owner, PlanId plan, int64_t step_id, const absl::Status& reason);

 private:
  // Shared with the calls.
  struct UnderWay {
    absl::Mutex mutex;
    absl::flat_hash_set<std::pair<PlanId, int64_t>> steps ABSL_GUARDED_BY(mutex);
  };

  Peers& peers_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<PlanId, TaskName> owners_ ABSL_GUARDED_BY(mutex_);
  std::deque<PlanId> dropped_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace weir
