// Where the tasks of a job run: on this machine, on the hosts that are given, on those that a script finds
// (host_discovery.h), and where the workers of an elastic job go that are started later.
//
// Borrows the options. Not thread-safe; of the launcher's thread. Nothing here waits.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/environment/host_list.h"
#include "distributed/launch/host_discovery.h"
#include "distributed/launch/launch_options.h"
#include "distributed/launch/task_placement.h"
#include "distributed/launch/worker_pool.h"

namespace weir {

class JobHosts {
 public:
  explicit JobHosts(const LaunchOptions& options);

  // What the script says now, if there is one. A list that cannot be used changes nothing. Returns what is to
  // be told to a person; mostly empty.
  std::string Ask(absl::Time now);
  HostDiscovery& discovery() { return discovery_; }
  // Slots for workers that the script has found.
  int num_found() const;

  // The tasks that the job begins with. The pool has their workers then.
  absl::StatusOr<std::vector<PlacedTask>> Place(absl::Time now);
  WorkerPool& pool() { return pool_; }

  // Where a worker that is started listens: where the cluster spec has it, or where nobody does, neither of
  // the cluster nor of `used`.
  absl::StatusOr<std::string> AddressOf(const WorkerPool::Start& start, const ClusterSpec& cluster,
                                        std::set<std::string> used) const;
  // The connection to what listens there was lost: it may still do so. Others get other ports, as long as
  // there are any.
  void NoteLeftBehind(const std::string& address) { left_behind_.insert(address); }

 private:
  // 0: of this machine any ports that nobody uses.
  int port_base() const { return options_.hosts.empty() ? 0 : options_.port_base; }

  const LaunchOptions& options_;
  std::vector<HostSlots> hosts_;
  WorkerPool pool_;
  HostDiscovery discovery_;
  std::string said_;  // of a list that cannot be used
  std::set<std::string> left_behind_;
};

}  // namespace weir
