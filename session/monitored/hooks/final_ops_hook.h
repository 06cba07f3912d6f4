// Evaluates outputs at the end of a session (tf.train.FinalOpsHook): a metric's value, a last check.
#pragma once

#include <functional>
#include <vector>

#include "graph/types/tensor.h"
#include "session/monitored/hook.h"
#include "session/session.h"

namespace weir {

struct FinalOpsOptions {
  std::vector<TensorRef> fetches;
  Feeds feeds;
  std::vector<TargetRef> targets;
  // Given the values of the fetches, in order.
  std::function<void(const std::vector<Tensor>& values)> sink;
};

// One step in End, while the session still runs. Errors are those of the step.
HookPtr FinalOpsHook(FinalOpsOptions options);

}  // namespace weir
