#include "distributed/command/idle_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "graph/types/freed_memory.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Duration CpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

// 0 where it cannot be read: then nothing is ever given back.
int64_t BytesInMemory() {
  int64_t pages_of_address_space = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> pages_of_address_space >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

IdleMemory::IdleMemory(Environment& environment)
    : environment_(environment), last_look_(environment.Now()), last_cpu_time_(CpuTime()) {}

IdleMemory::~IdleMemory() {
  {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
  }
  if (thread_ != nullptr) thread_->Join();
}

absl::Status IdleMemory::Start() {
  WEIR_ASSIGN_OR_RETURN(thread_, environment_.StartThread([this] { LookUntilTheEnd(); }));
  return absl::OkStatus();
}

void IdleMemory::LookUntilTheEnd() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (environment_.Await(mutex_, absl::Condition(&is_over_), environment_.Now() + kInterval)) return;
    }
    Look();
  }
}

bool IdleMemory::Look() {
  const absl::Time now = environment_.Now();
  const absl::Duration cpu_time = CpuTime();
  const bool was_busy = cpu_time - last_cpu_time_ > kBusyShare * (now - last_look_);
  last_look_ = now;
  last_cpu_time_ = cpu_time;
  if (was_busy || cpu_time - cpu_time_at_release_ < kWork || BytesInMemory() < kWorthwhileBytes) return false;
  ReleaseFreedMemory();
  cpu_time_at_release_ = CpuTime();
  return true;
}

}  // namespace weir
