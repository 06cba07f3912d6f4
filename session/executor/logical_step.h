// A step of a training loop, however often it is tried.
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

}  // namespace weir
