#include "distributed/process_age.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace weir {

absl::Duration ProcessAge() {
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
  timespec now{};
  if (fields.size() <= kStarted || !absl::SimpleAtoi(fields[kStarted], &ticks) || ticks_per_second <= 0 ||
      clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return absl::ZeroDuration();
  }
  const absl::Duration started = absl::Seconds(ticks) / ticks_per_second;
  return std::max(absl::ZeroDuration(), absl::DurationFromTimespec(now) - started);
}

}  // namespace weir
