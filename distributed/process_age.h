// How long ago this process was started, and which it is.
//
// Thread safety: all functions.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace weir {

// As the system counts it, to a hundredth of a second; also of what the process was stopped or waited before
// its first line. Zero where the system does not say.
absl::Duration ProcessAge();

struct ProcessOrigin {
  absl::Duration age;
  // The same each time in one process, and another in every other one; 0 where the system does not say.
  uint64_t id = 0;
};
ProcessOrigin OriginOfThisProcess();

}  // namespace weir
