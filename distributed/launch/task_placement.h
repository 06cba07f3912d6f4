// Which task of a job runs on which host, at which port.
//
// Every task takes one slot. The parameter servers are spread: they go to one host after the other, round and
// round, so that their traffic shares no network card; workers then fill the slots that are left, host by
// host. Ports count from `port_base` on each host.
//
// A pure function. Thread safety: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distributed/environment/host_list.h"
#include "distributed/task_name.h"

namespace weir {

struct PlacedTask {
  TaskName task;
  std::string host;
  int port = 0;
};

// First the ps tasks, then the workers, each in the order of their indices. InvalidArgument: fewer slots than
// tasks, a port above 65535, "localhost" beside other hosts (which could not reach it).
absl::StatusOr<std::vector<PlacedTask>> PlaceTasks(const std::vector<HostSlots>& hosts, int num_ps,
                                                   int num_workers, int port_base);

}  // namespace weir
