#include "distributed/launch/job_hosts.h"

#include <optional>
#include <utility>

#include "distributed/launch/found_hosts.h"
#include "graph/types/status_macros.h"

namespace weir {

JobHosts::JobHosts(const LaunchOptions& options)
    : options_(options), pool_(options.pool), discovery_(options.host_discovery_script) {}

std::string JobHosts::Ask(absl::Time now) {
  const auto found = discovery_.Poll(now);
  if (!found.has_value()) return "";
  if (!found->ok()) return std::string(found->status().message());
  const absl::Status usable = CheckReachable(**found, options_.hosts);
  const std::string text(usable.message());
  if (!usable.ok()) return std::exchange(said_, text) == text ? "" : text;
  said_.clear();
  hosts_ = **found;
  pool_.SetHosts(hosts_);
  return "";
}

int JobHosts::num_found() const {
  int num_slots = 0;
  for (const HostSlots& host : hosts_) num_slots += host.num_slots;
  return num_slots;
}

absl::StatusOr<std::vector<PlacedTask>> JobHosts::Place(absl::Time now) {
  const bool is_found = discovery_.is_on();
  const int num_workers = is_found ? 0 : options_.num_workers;
  std::vector<PlacedTask> placed;
  if (!options_.hosts.empty()) {
    WEIR_ASSIGN_OR_RETURN(placed,
                          PlaceTasks(options_.hosts, options_.num_ps, num_workers, options_.port_base));
  } else {
    WEIR_ASSIGN_OR_RETURN(placed, PlaceHere(options_.num_ps, num_workers));
  }
  std::vector<std::string> hosts_of_workers;
  if (is_found) {
    WEIR_ASSIGN_OR_RETURN(hosts_of_workers,
                          PlaceOnFoundHosts(hosts_, options_.pool.max_workers, port_base(), &placed));
  } else {
    // As many workers as a host has now are its slots.
    for (const PlacedTask& task : placed) {
      if (task.task.job == "ps") continue;
      hosts_of_workers.push_back(task.host);
      if (hosts_.empty() || hosts_.back().host != task.host) hosts_.push_back({task.host, 0});
      ++hosts_.back().num_slots;
    }
  }
  pool_.SetHosts(hosts_);
  pool_.Begin(hosts_of_workers, now);
  return placed;
}

absl::StatusOr<std::string> JobHosts::AddressOf(const WorkerPool::Start& start, const ClusterSpec& cluster,
                                                std::set<std::string> used) const {
  if (const auto seed = cluster.address({"worker", start.index}); seed.ok()) return *seed;
  for (const TaskName& seed : cluster.tasks()) used.insert(cluster.address(seed).value());
  std::set<std::string> avoided = used;
  avoided.insert(left_behind_.begin(), left_behind_.end());
  absl::StatusOr<HostPort> found = NewAddress(start.host, port_base(), avoided);
  if (!found.ok()) found = NewAddress(start.host, port_base(), used);
  WEIR_RETURN_IF_ERROR(found.status());
  return found->ToString();
}

}  // namespace weir
