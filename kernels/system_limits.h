// What the system lets this process have (`ulimit`, or the limits of a batch system), where the libraries
// below Weir do not survive too little of it, and end the process without a cause.
//
// For the beginning of a program; thread-safe.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace weir {

// A thread of gRPC has been seen to need more than 64 KiB.
inline constexpr size_t kLeastStack = size_t{256} << 10;

// FailedPrecondition, with both sizes, where this process or its new threads have smaller stacks: the first
// deep call would be a segmentation fault.
absl::Status CheckStacks();

// From now on the first `new` that finds no memory says so on stderr, with the limit of addresses if there is
// one. It throws std::bad_alloc as before, which ends a program that does not catch it. A handler that the
// program has set stays.
void ReportMemoryThatRunsOut();

}  // namespace weir
