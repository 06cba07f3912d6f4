#include "distributed/timing/clock.h"

#include <chrono>

namespace weir {
namespace {

class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

Clock& MonotonicClock() {
  static SteadyClock clock;
  return clock;
}

}  // namespace weir
