// Which kernels share their work: those that ran a loop worth sharing since the caller last asked.
#pragma once

#include <cstdint>

namespace weir {

// How many loops the calling thread has given to ThreadPool::ParallelFor so far that were long enough to be
// split, whether or not another thread had time for a part.
int64_t NumLongLoops();

}  // namespace weir
