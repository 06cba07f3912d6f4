// Calls to several workers, each of which may keep its caller waiting: made together, so that all that are
// silent are waited for at once, and named at once.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/environment.h"

namespace weir {

// Calls call(i) for each i below `count`, on threads of the environment, at most kMaxCallsAtOnce at a time,
// and returns when all have returned: the error of the lowest i. The last one is called on this thread: it
// should be the one that is not waited for.
inline constexpr size_t kMaxCallsAtOnce = 64;
absl::Status CallTogether(Environment& environment, size_t count,
                          absl::FunctionRef<absl::Status(size_t i)> call);

}  // namespace weir
