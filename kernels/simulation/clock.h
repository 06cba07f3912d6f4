// The clocks of one simulated process: what they show, and at which time of the world.
//
// The world's time is what the scheduler counts. A process's clock is ahead of it, or behind, and goes a
// little faster or slower, as a machine's does; the clock that only counts begins at another time. No time
// that one process has read is good for another, or for the scheduler.
//
// Pure functions. Thread safety: all methods.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace weir {

struct SimulatedClock {
  absl::Duration ahead;             // of Now and TimeOfDay, when the world begins
  absl::Duration ahead_of_counted;  // of SteadyNow, likewise
  int64_t drift = 0;                // millionths: 1000 gains a millisecond a second
  absl::Time begin;                 // of the world

  absl::Time Shown(absl::Time world) const { return Show(world, ahead); }
  absl::Time Counted(absl::Time world) const { return Show(world, ahead_of_counted); }

  // The first time of the world at which Shown has reached this.
  absl::Time WorldTimeOf(absl::Time shown) const {
    if (shown == absl::InfinitePast() || shown == absl::InfiniteFuture()) return shown;
    if (drift == 0) return shown - ahead;
    absl::Time world = begin + (shown - ahead - begin) * kMillion / (kMillion + drift);
    while (Shown(world) < shown) world += absl::Nanoseconds(1);
    return world;
  }

 private:
  static constexpr int64_t kMillion = 1'000'000;

  absl::Time Show(absl::Time world, absl::Duration offset) const {
    if (drift == 0) return world + offset;
    return world + offset + (world - begin) * drift / kMillion;
  }
};

}  // namespace weir
