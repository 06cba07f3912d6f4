// Incarnation numbers: how a peer tells a device or a task from the one of the same name before a restart.
#pragma once

#include <cstdint>

#include "kernels/environment.h"

namespace weir {

// Random, never 0.
inline uint64_t NewIncarnation(Environment& environment) {
  const uint64_t number = environment.Random();
  return number != 0 ? number : 1;
}

}  // namespace weir
