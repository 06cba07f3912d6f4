// One function called once for each of some arguments, several calls at a time.
//
// At most `num_calls` are under way. The calls run on the threads that run steps; the caller waits, so only
// from threads that may. After an error no further call begins. When the caller is cancelled, the calls are
// too, and it returns before they are over; they keep what they use.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/data/captured_function.h"

namespace weir {

// The results in the order of the arguments; calls that were not begun behind an error are Cancelled. An
// error of the whole when the caller was cancelled.
absl::StatusOr<std::vector<Function::Results>> CallInParallel(const PreparedFunction& function,
                                                              std::vector<Element> arguments,
                                                              int64_t num_calls, Environment& environment,
                                                              Cancellation& cancellation);

}  // namespace weir
