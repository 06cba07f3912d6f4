// What the owner of a plan is told when this task cannot do what it asks.
//
// Pure functions. Thread safety: all.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "distributed/task_name.h"
#include "session/worker.h"

namespace weir {

inline absl::Status UnknownPlan(PlanId plan, const TaskName& here) {
  return absl::AbortedError(
      absl::StrCat("plan ", plan, " is not registered on ", here.ToString(),
                   ": the task has restarted, or has dropped it because it lost its owner"));
}

inline absl::Status DeregisteredPlan(PlanId plan, const TaskName& here) {
  return absl::AbortedError(absl::StrCat("plan ", plan, " was deregistered on ", here.ToString(),
                                         " before its registration came, or came again"));
}

inline absl::Status AskedTooOften(absl::string_view what, int64_t id) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " ", id, " was asked for too often while it is not done: repeat it later"));
}

}  // namespace weir
