// Incarnation numbers: how a peer tells a device or a task from the one of the same name before a restart.
#pragma once

#include <cstdint>
#include <random>

namespace weir {

// Random, never 0.
inline uint64_t NewIncarnation() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return number != 0 ? number : 1;
}

}  // namespace weir
