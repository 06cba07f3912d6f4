// One function called once for each of some arguments, several calls at a time.
//
// At most `num_calls` are under way. The calls run on the threads that run steps; the caller waits, so only
// from threads that may. After an error no further call begins. When the caller is cancelled, the calls are
// too, and it returns before they are over; they keep what they use.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/data/captured_function.h"

namespace weir {

// `arguments_of(i)`, for each i in [0, count) in turn, gives the arguments of a call just before it begins;
// its error is the call's. The results have the same order; calls that were not begun behind an error are
// Cancelled. An error of the whole when the caller was cancelled, and ResourceExhausted when there is no
// memory for so many results.
absl::StatusOr<std::vector<Function::Results>> CallInParallel(
    const PreparedFunction& function, int64_t count,
    absl::FunctionRef<absl::StatusOr<Element>(int64_t)> arguments_of, int64_t num_calls,
    Environment& environment, Cancellation& cancellation);

}  // namespace weir
