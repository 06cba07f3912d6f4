#include "distributed/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr int64_t kConnectionsPerTask = 4;
constexpr int64_t kOwn = 100;   // listeners, pollers, and kFiles
constexpr int64_t kFiles = 64;  // checkpoints, event files, data sets
constexpr StrangerRoom kMost = {256, 64}, kFewest = {32, 16};

int64_t DescriptorsFor(const StrangerRoom& room, bool uses_tls) {
  return static_cast<int64_t>(room.at_grpc * (uses_tls ? 2 : 1) + room.at_sockets);
}

int64_t DescriptorsOfJob(int64_t num_tasks) { return kOwn + kConnectionsPerTask * (num_tasks - 1); }

}  // namespace

int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int64_t>::max();
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  constexpr rlim_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMost));
}

int DescriptorsForConnections(int64_t limit) {
  constexpr int64_t kAll = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(std::max(limit - kFiles, limit / 2), kAll));
}

StrangerRoom RoomForStrangers(int64_t num_tasks, bool uses_tls, int64_t limit) {
  // A quarter stays: gRPC closes a stranger's connection some time after it is told to.
  const double left = 0.75 * static_cast<double>(limit - DescriptorsOfJob(num_tasks));
  const double share = left / static_cast<double>(DescriptorsFor(kMost, uses_tls));
  const auto part = [share](size_t most, size_t fewest) {
    return static_cast<size_t>(std::clamp(share * static_cast<double>(most), static_cast<double>(fewest),
                                          static_cast<double>(most)));
  };
  return {part(kMost.at_grpc, kFewest.at_grpc), part(kMost.at_sockets, kFewest.at_sockets)};
}

int64_t DescriptorsForTasks(int64_t num_tasks, bool uses_tls) {
  return DescriptorsOfJob(num_tasks) + DescriptorsFor(kFewest, uses_tls);
}

absl::Status CheckDescriptors(const std::string& task, int64_t limit) {
  if (limit >= kOwn) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(task, " may have ", limit, " files and connections open at a time, and needs ", kOwn,
                   " for itself before others can reach it: raise the hard limit (ulimit -Hn)"));
}

std::string WordsOfDescriptors(const std::string& task, int64_t num_tasks, bool uses_tls, int64_t limit) {
  const int64_t wanted = DescriptorsForTasks(num_tasks, uses_tls);
  if (wanted <= limit) return "";
  return absl::StrCat(task, " may have ", limit, " files and connections open at a time, and a job of ",
                      num_tasks, " tasks may need ", wanted,
                      " of them in one task: raise the hard limit (ulimit -Hn), or let fewer tasks talk to "
                      "each other");
}

}  // namespace weir
