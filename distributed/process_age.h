// How long ago this process was started.
//
// Thread safety: all functions.
#pragma once

#include "absl/time/time.h"

namespace weir {

// As the system counts it, to a hundredth of a second; also of what the process was stopped or waited before
// its first line. Zero where the system does not say.
absl::Duration ProcessAge();

}  // namespace weir
