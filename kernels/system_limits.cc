#include "kernels/system_limits.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Those that threads get, and the one that the first thread may grow to; the largest number where nobody says
// or nothing limits it.
size_t SmallestStack() {
  size_t smallest = ~size_t{0};
  pthread_attr_t defaults;
  if (pthread_getattr_default_np(&defaults) == 0) {
    pthread_attr_getstacksize(&defaults, &smallest);
    pthread_attr_destroy(&defaults);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return smallest;
  return std::min(smallest, static_cast<size_t>(limit.rlim_cur));
}

// Called where there is no memory: it may use none.
void SayThatMemoryHasRunOut() {
  static std::atomic<bool> has_said{false};
  if (!has_said.exchange(true)) {
    char line[200];
    rlimit limit{};
    const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    const int length =
        is_limited
            ? std::snprintf(line, sizeof(line),
                            "weir: the system gives this process no further memory: its addresses, "
                            "stacks of threads too, may take %llu KiB (ulimit -v)\n",
                            static_cast<unsigned long long>(limit.rlim_cur >> 10))
            : std::snprintf(line, sizeof(line), "weir: the system gives this process no further memory\n");
    // Whether somebody reads it or not, nothing else can be done.
    if (::write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) throw std::bad_alloc();
  }
  throw std::bad_alloc();
}

}  // namespace

absl::Status CheckStacks() {
  const size_t smallest = SmallestStack();
  if (smallest >= kLeastStack) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this process may have stacks of ", smallest >> 10,
                                                    " KiB, and needs ", kLeastStack >> 10,
                                                    " KiB: raise the limit (ulimit -s)"));
}

void ReportMemoryThatRunsOut() {
  if (std::get_new_handler() == nullptr) std::set_new_handler(&SayThatMemoryHasRunOut);
}

}  // namespace weir
