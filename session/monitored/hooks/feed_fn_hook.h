// Feeds every step with what a function gives (tf.train.FeedFnHook).
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "session/monitored/hook.h"
#include "session/session.h"

namespace weir {

// Calls `feed` before each step. OutOfRange from it, the end of the input, ends training as it does from a
// step; any other error ends the session.
HookPtr FeedFnHook(std::function<absl::StatusOr<Feeds>()> feed);

}  // namespace weir
