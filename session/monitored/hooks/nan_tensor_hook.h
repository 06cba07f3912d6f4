// Ends training when the loss is no longer a number.
#pragma once

#include "graph/node.h"
#include "session/monitored/hook.h"

namespace weir {

struct NanTensorOptions {
  Output tensor;            // float or double, any shape
  bool fail_on_nan = true;  // false: only stop
};

// NaN or infinity in the tensor: with fail_on_nan an error for which ExitCodeFor gives 4 (diverged), naming
// the tensor and its value; otherwise a line on stderr and a stop.
HookPtr NanTensorHook(NanTensorOptions options);

}  // namespace weir
