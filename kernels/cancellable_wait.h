// A wait that the end of a step ends too.
//
// Thread safety: pure functions but for what they wait for.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cancellation.h"
#include "kernels/environment.h"

namespace weir {

// Waits until `is_ready` holds, then calls `take`; both are called with the mutex held. The cancellation's
// reason when the step is over before, or by then: nothing is taken. Precondition: the mutex is not held.
absl::Status AwaitUnlessCancelled(
    Environment& environment, absl::Mutex& mutex, Cancellation& cancellation,
    absl::FunctionRef<bool()> is_ready, absl::FunctionRef<void()> take = [] {});

}  // namespace weir
