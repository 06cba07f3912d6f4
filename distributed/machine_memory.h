// How much memory others may make a task take.
//
// Thread safety: all functions.
#pragma once

#include <cstdint>

namespace weir {

// Half of what the machine has, in bytes; 8 GiB where the system does not say.
int64_t HalfOfMemory();

}  // namespace weir
