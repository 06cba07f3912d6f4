// The environment that a kernel runs in: its session's, so that a simulated cluster has simulated clocks in
// its graphs too.
#pragma once

#include "kernels/environment.h"
#include "kernels/kernel.h"

namespace weir {

// The operating system's outside of a session. Outlives the kernel.
Environment& EnvironmentOf(const KernelConstruction& construction);

}  // namespace weir
