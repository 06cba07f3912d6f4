// Where tasks run that the launcher finds a place for itself: on this machine, and on the hosts that a script
// has found (host_discovery.h).
//
// Thread safety: any. Nothing reserves the ports that are found free: bind soon.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/cluster_spec.h"
#include "distributed/environment/host_list.h"
#include "distributed/launch/task_placement.h"

namespace weir {

// Whether workers on these hosts reach the parameter servers, which run on `hosts_of_ps`, or on this machine
// where that is empty, and are reached by them. InvalidArgument names the host that does not.
absl::Status CheckReachable(const std::vector<HostSlots>& found, const std::vector<HostSlots>& hosts_of_ps);

// All tasks on this machine, at ports that nobody uses.
absl::StatusOr<std::vector<PlacedTask>> PlaceHere(int num_ps, int num_workers);

// Where one more task can be that runs on the host. With `port_base` at the first port from there on that is
// not used, with 0 on this machine at a port that nobody uses. InvalidArgument or ResourceExhausted when
// there is none.
absl::StatusOr<HostPort> NewAddress(const std::string& host, int port_base,
                                    const std::set<std::string>& used);

// Adds a worker for each slot, `max_workers` at most, to the tasks that are placed. Returns their hosts.
absl::StatusOr<std::vector<std::string>> PlaceOnFoundHosts(const std::vector<HostSlots>& found,
                                                           int max_workers, int port_base,
                                                           std::vector<PlacedTask>* placed);

}  // namespace weir
