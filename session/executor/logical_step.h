// A step of a training loop, and a restore of its variables, however often they are tried.
//
// When a peer is lost, a MonitoredSession makes a new session and runs its step again, without knowing how
// far the first attempt came. Both attempts carry this, so that the workers apply each update of the step
// once (update_ledger.h).
#pragma once

#include <cstdint>

namespace weir {

struct LogicalStep {
  uint64_t writer = 0;        // who counts: random, one for each MonitoredSession; 0: the step is none
  int64_t number = 0;         // of the writer's steps
  int64_t settled_below = 0;  // the writer tries no step below this one again
};

// What a worker knows of a restore, which has the same id however often it is tried.
enum class RestoreState {
  kNew,    // it has not begun here, or another one has begun since, or this worker started anew
  kBegun,  // and has not ended
  kEnded,  // the last one that has
};

}  // namespace weir
