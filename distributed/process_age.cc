#include "distributed/process_age.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace weir {

// When this process was started, since the system was; zero where the system does not say.
static absl::Duration StartOfThisProcess() {
  // proc(5): the name, in parentheses, may contain anything; what follows begins with field 3. Field 22 is
  // when the process was started, in ticks since the system was.
  constexpr size_t kStarted = 22 - 3;
  std::stringstream text;
  text << std::ifstream("/proc/self/stat").rdbuf();
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return absl::ZeroDuration();
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  const long ticks_per_second = sysconf(_SC_CLK_TCK);
  int64_t ticks = 0;
  if (fields.size() <= kStarted || !absl::SimpleAtoi(fields[kStarted], &ticks) || ticks_per_second <= 0) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(ticks) / ticks_per_second;
}

absl::Duration ProcessAge() {
  const absl::Duration started = StartOfThisProcess();
  timespec now{};
  if (started == absl::ZeroDuration() || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return absl::ZeroDuration();
  }
  return std::max(absl::ZeroDuration(), absl::DurationFromTimespec(now) - started);
}

ProcessOrigin OriginOfThisProcess() {
  const absl::Duration started = StartOfThisProcess();
  if (started == absl::ZeroDuration()) return {};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const uint64_t id = absl::HashOf(boot, static_cast<int64_t>(getpid()), absl::ToInt64Nanoseconds(started));
  return {ProcessAge(), id == 0 ? 1 : id};
}

}  // namespace weir
