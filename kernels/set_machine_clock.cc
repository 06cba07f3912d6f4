#include "kernels/set_machine_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace weir {
namespace {

std::atomic<int64_t> seconds_ahead{0};

}  // namespace

void SetMachineClock(absl::Duration ahead) { seconds_ahead = absl::ToInt64Seconds(ahead); }

}  // namespace weir

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += weir::seconds_ahead;
  return static_cast<int>(result);
}
