// Saves checkpoints while training: at its beginning, every so often, and at its end.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "graph/node.h"
#include "session/monitored/hook.h"
#include "session/monitored/saver.h"

namespace weir {

struct CheckpointSaverOptions {
  std::string directory;
  int64_t every_steps = 0;  // when > 0, else
  absl::Duration interval = absl::Minutes(10);
  std::shared_ptr<Saver> saver;
  Output global_step;
  std::string base_name = "model.ckpt";
};

// A save that fails for lack of space or a temporary reason is reported on stderr and tried again when the
// next one is due: training goes on, older checkpoints stay. The last one, at End, is returned as an error.
HookPtr CheckpointSaverHook(CheckpointSaverOptions options);

}  // namespace weir
