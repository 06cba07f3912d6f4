// Says when a hook that works every so many steps, or every so often, is due.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "kernels/process_clock.h"

namespace weir {

class StepTimer {
 public:
  // Due when `every_steps` steps have passed (> 0), else when `interval` has; never when both are zero.
  StepTimer(int64_t every_steps, absl::Duration interval) : every_steps_(every_steps), interval_(interval) {}

  bool IsDue(int64_t step, absl::Time now = ProcessNow()) const {
    if (every_steps_ <= 0 && interval_ <= absl::ZeroDuration()) return false;
    if (!last_step_) return true;
    if (step == *last_step_) return false;
    return every_steps_ > 0 ? step >= *last_step_ + every_steps_ : now >= last_time_ + interval_;
  }
  // Due again at once.
  void Reset() { last_step_.reset(); }
  void Mark(int64_t step, absl::Time now = ProcessNow()) {
    last_step_ = step;
    last_time_ = now;
  }
  std::optional<int64_t> last_step() const { return last_step_; }
  absl::Time last_time() const { return last_time_; }

 private:
  const int64_t every_steps_;
  const absl::Duration interval_;
  std::optional<int64_t> last_step_;
  absl::Time last_time_;
};

}  // namespace weir
