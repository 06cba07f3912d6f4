// One step of a session with hooks around it.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "session/monitored/coordinator.h"
#include "session/monitored/hook.h"
#include "session/session.h"

namespace weir {

struct HookedStepResult {
  std::vector<Tensor> fetches;  // of the caller, in order
  bool stop_requested = false;  // by a hook
  // A peer was lost in a hook's AfterRun (IsRecoverable): the step is done, but the session is of no more use
  // and the hooks after that one were not called.
  absl::Status lost_under_hook;
};

// Calls the hooks' BeforeRun, runs one step with all that they and the caller ask for, which `adjust` may
// change, calls their AfterRun. `session_stop` is what the hooks' RunContext waits for. Errors: those of
// `adjust`; InvalidArgument for an output that is fed
// by two of them, naming it and both; the hooks'; those of a step.
absl::StatusOr<HookedStepResult> RunWithHooks(Session& session, absl::Span<const HookPtr> hooks,
                                              const RunArgs& caller, const Coordinator& session_stop,
                                              absl::FunctionRef<absl::Status(RunArgs& all)> adjust);

}  // namespace weir
