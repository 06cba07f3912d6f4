// How many steps a worker may keep memory for before they have started.
//
// A tensor or a piece of one may arrive before its step's RunPartition. The worker keeps it in a step that
// waits to be started, which takes memory of its own: a slot for each edge and each tensor of the programs.
// Nobody may ever start such a step, so their number and their memory are bounded, whoever sends what.
//
// Shared by the plans of a worker. Thread safety: all methods.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "session/worker.h"

namespace weir {

class EarlySteps {
 public:
  static constexpr int kMaxPerPlan = 256;
  static constexpr int kMaxPerSession = 1024;
  // Of a worker; without the tensors that have arrived. A single step may have more.
  static constexpr int64_t kMaxBytes = 256 << 20;

  // For a step of a plan that has `num_of_plan` such steps already. ResourceExhausted, naming the count and
  // the limit.
  absl::Status Add(SessionId session, PlanId plan, int num_of_plan, int64_t num_bytes);
  // When the step has started or is dropped.
  void Remove(SessionId session, int64_t num_bytes);

  int64_t num_bytes() const;

 private:
  mutable absl::Mutex mutex_;
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<SessionId, int> num_of_session_ ABSL_GUARDED_BY(mutex_);  // without zeros
};

}  // namespace weir
