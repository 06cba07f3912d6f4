// Shows how far training is: a bar with steps/s and time left on a terminal, plain lines elsewhere. Of
// tensors that replicas compute together all replicas need the hook (logging_tensor_hook.h).
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct ProgressOptions {
  int64_t last_step = 0;  // of the global step: 100 %
  Output global_step;     // default: the collection "global_step"
  // Scalars shown beside it: {{"loss", loss}}.
  std::vector<std::pair<std::string, Output>> tensors;
  std::FILE* out = stdout;
  // How often to write; zero: 5 times a second on a terminal, every 5 s elsewhere.
  absl::Duration interval = absl::ZeroDuration();
};

HookPtr ProgressHook(ProgressOptions options);

// "[=====>    ]  52%  520/1000  210.3 steps/s  ETA 2s  loss 0.31"; without the bar for is_bar == false. Rate
// 0 is unknown.
std::string ProgressLine(int64_t step, int64_t last_step, double steps_per_second, bool is_bar);

}  // namespace weir
