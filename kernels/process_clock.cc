#include "kernels/process_clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace weir {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Longer waits are several: the system's clocks overflow.
constexpr absl::Duration kLongestWait = absl::Hours(24);

// What the standard library locks.
struct Lockable {
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }

  absl::Mutex* mutex;
};

}  // namespace

absl::Time ProcessNow() {
  struct Start {
    absl::Time time_of_day = absl::Now();
    SteadyClock::time_point count = SteadyClock::now();
  };
  static const Start start;
  return start.time_of_day + absl::FromChrono(SteadyClock::now() - start.count);
}

void ProcessCondVar::Wait(absl::Mutex* mutex) {
  Lockable lock{mutex};
  changed_.wait(lock);
}

void ProcessCondVar::WaitUntil(absl::Mutex* mutex, absl::Time time) {
  const absl::Duration left = std::clamp(time - ProcessNow(), absl::ZeroDuration(), kLongestWait);
  Lockable lock{mutex};
  // To the nanosecond above: who wakes up too early would ask again at once.
  changed_.wait_for(lock, absl::ToChronoNanoseconds(absl::Ceil(left, absl::Nanoseconds(1))));
}

}  // namespace weir
