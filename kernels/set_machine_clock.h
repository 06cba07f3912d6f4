// For tests: sets the machine's clock, as this process sees it.
//
// The program that links this has a clock_gettime of its own, in front of the C library's. The system's waits
// go on to compare with the real clock.
#pragma once

#include "absl/time/time.h"

namespace weir {

// From now on the time of day is that much later than the machine's (earlier when it is negative).
void SetMachineClock(absl::Duration ahead);

}  // namespace weir
