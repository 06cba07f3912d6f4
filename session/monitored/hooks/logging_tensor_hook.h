// Prints tensors every so many steps, or every so often.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct LoggingTensorOptions {
  // What to print and under which name: {{"loss", loss}}.
  std::vector<std::pair<std::string, Output>> tensors;
  int64_t every_steps = 0;  // local steps; when 0:
  absl::Duration interval = absl::Seconds(10);
  bool at_end = false;  // also after the last step
  // Where the line "loss = 0.31, accuracy = 0.9 (1.2 s)" goes; default: stderr.
  std::function<void(const std::string& line)> sink;
};

HookPtr LoggingTensorHook(LoggingTensorOptions options);

}  // namespace weir
