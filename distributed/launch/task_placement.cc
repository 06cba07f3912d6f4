#include "distributed/launch/task_placement.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/host_name.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPort = 65535;

absl::Status CheckReachable(const std::vector<HostSlots>& hosts) {
  const HostSlots* loopback = nullptr;
  const HostSlots* other = nullptr;
  for (const HostSlots& host : hosts) (IsLoopbackHost(host.host) ? loopback : other) = &host;
  if (loopback == nullptr || other == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tasks on ", other->host, " could not reach those on ",
                                                 loopback->host,
                                                 ": give this machine the name that others know it by"));
}

}  // namespace

absl::StatusOr<std::vector<PlacedTask>> PlaceTasks(const std::vector<HostSlots>& hosts, int num_ps,
                                                   int num_workers, int port_base) {
  int64_t num_slots = 0;
  for (const HostSlots& host : hosts) num_slots += host.num_slots;
  if (int64_t{num_ps} + num_workers > num_slots) {
    return absl::InvalidArgumentError(absl::StrCat("--ps=", num_ps, " and --workers=", num_workers,
                                                   " need a slot each, but the hosts have ", num_slots));
  }
  WEIR_RETURN_IF_ERROR(CheckReachable(hosts));
  std::vector<int> used(hosts.size());
  std::vector<PlacedTask> tasks;
  size_t next = 0;
  for (int i = 0; i < num_ps + num_workers; ++i) {
    const bool is_ps = i < num_ps;
    if (i == num_ps) next = 0;
    while (used[next] == hosts[next].num_slots) next = (next + 1) % hosts.size();
    const int port = port_base + used[next]++;
    if (port < 1 || port > kMaxPort) {
      return absl::InvalidArgumentError(absl::StrCat("--port_base=", port_base, ": task ", used[next] - 1,
                                                     " of ", hosts[next].host, " would get port ", port));
    }
    tasks.push_back({is_ps ? TaskName{"ps", i} : TaskName{"worker", i - num_ps}, hosts[next].host, port});
    if (is_ps) next = (next + 1) % hosts.size();
  }
  return tasks;
}

}  // namespace weir
