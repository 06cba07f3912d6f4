// Short pieces of work that run at a time.
//
// Thread safety: all methods. Work runs on a thread of the timers, one piece at a time: it must not wait.
// Lifetime: destroying the timers drops what has not begun and waits for what runs.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace weir {

class Timers {
 public:
  using TimerId = uint64_t;  // never 0

  virtual ~Timers() = default;

  // Runs `work` at `when` or soon after, never before this returns.
  virtual TimerId At(absl::Time when, absl::AnyInvocable<void()> work) = 0;
  // True when the work will not run; false when it has begun, or is over. 0 is ignored.
  virtual bool Forget(TimerId id) = 0;
};

}  // namespace weir
