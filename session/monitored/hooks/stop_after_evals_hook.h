// Ends an evaluation after so many steps (StopAfterNEvalsHook of tf.contrib.training).
#pragma once

#include <cstdint>

#include "session/monitored/hook.h"

namespace weir {

// Counts the steps of each session anew, so that it serves every checkpoint that is evaluated. Begin fails
// with InvalidArgument unless num_evals is positive.
HookPtr StopAfterEvalsHook(int64_t num_evals);

}  // namespace weir
