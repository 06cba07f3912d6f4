// Prints tensors every so many steps, every so often, or at the end (tf.train.LoggingTensorHook). Of tensors
// that replicas compute together (Horovod::AllReduce, MirroredStrategy::Reduce) all replicas need the hook:
// it fetches them in every step, also where it does not print them (collective_fetches.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "graph/types/tensor.h"
#include "session/monitored/hook.h"

namespace weir {

struct LoggingTensorOptions {
  // What to print and under which name: {{"loss", loss}}.
  std::vector<std::pair<std::string, Output>> tensors;
  int64_t every_steps = 0;                      // local steps; when 0:
  absl::Duration interval = absl::Seconds(10);  // zero, without every_steps: only at the end
  // Also after the last step, in a step of their own: they must need no feed.
  bool at_end = false;
  // Makes the line of the tensors' values, in their order; default: "loss = 0.31, accuracy = 0.9 (1.2 s)".
  std::function<std::string(absl::Span<const Tensor> values)> formatter;
  // Where the line goes; default: stderr.
  std::function<void(const std::string& line)> sink;
};

HookPtr LoggingTensorHook(LoggingTensorOptions options);

}  // namespace weir
