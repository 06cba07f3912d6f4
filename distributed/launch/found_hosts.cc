#include "distributed/launch/found_hosts.h"

#include "absl/strings/str_cat.h"
#include "distributed/host_name.h"
#include "distributed/launch/free_ports.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPort = 65535;
constexpr char kHere[] = "127.0.0.1";

}  // namespace

absl::Status CheckReachable(const std::vector<HostSlots>& found, const std::vector<HostSlots>& hosts_of_ps) {
  const bool is_here = hosts_of_ps.empty() || IsLoopbackHost(hosts_of_ps[0].host);
  for (const HostSlots& host : found) {
    if (IsLoopbackHost(host.host) == is_here) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--host_discovery_script: ", host.host,
        is_here
            ? " is not this machine, where the parameter servers run: say with -H on which hosts they run"
            : " could not be reached from the hosts of -H: give this machine the name that others know it "
              "by"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlacedTask>> PlaceHere(int num_ps, int num_workers) {
  const int count = num_ps + num_workers;
  WEIR_ASSIGN_OR_RETURN(const std::vector<int> ports, FindFreePorts(count));
  WEIR_ASSIGN_OR_RETURN(std::vector<PlacedTask> placed, PlaceTasks({{kHere, count}}, num_ps, num_workers, 1));
  for (int i = 0; i < count; ++i) placed[i].port = ports[i];
  return placed;
}

absl::StatusOr<HostPort> NewAddress(const std::string& host, int port_base,
                                    const std::set<std::string>& used) {
  if (port_base > 0) {
    HostPort address{host, port_base};
    while (used.contains(address.ToString())) ++address.port;
    if (address.port <= kMaxPort) return address;
    return absl::InvalidArgumentError(absl::StrCat("no port is left on ", host, " for one more worker"));
  }
  // One that is free may still belong to a task that has ended and may come again.
  WEIR_ASSIGN_OR_RETURN(const std::vector<int> ports, FindFreePorts(static_cast<int>(used.size()) + 1));
  for (const int port : ports) {
    const HostPort address{kHere, port};
    if (!used.contains(address.ToString())) return address;
  }
  return absl::ResourceExhaustedError("no port is free for one more worker");
}

absl::StatusOr<std::vector<std::string>> PlaceOnFoundHosts(const std::vector<HostSlots>& found,
                                                           int max_workers, int port_base,
                                                           std::vector<PlacedTask>* placed) {
  std::set<std::string> used;
  for (const PlacedTask& task : *placed) used.insert(HostPort{task.host, task.port}.ToString());
  std::vector<std::string> hosts;
  for (const HostSlots& host : found) {
    for (int i = 0; i < host.num_slots && static_cast<int>(hosts.size()) < max_workers; ++i) {
      WEIR_ASSIGN_OR_RETURN(const HostPort address, NewAddress(host.host, port_base, used));
      used.insert(address.ToString());
      placed->push_back({{"worker", static_cast<int>(hosts.size())}, address.host, address.port});
      hosts.push_back(host.host);
    }
  }
  return hosts;
}

}  // namespace weir
