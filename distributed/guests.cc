#include "distributed/guests.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"

namespace weir {

static std::set<TaskName> TasksOf(const ClusterSpec& cluster) {
  const std::vector<TaskName> tasks = cluster.tasks();
  return {tasks.begin(), tasks.end()};
}

static std::string Normal(const HostPort& address) { return absl::AsciiStrToLower(address.ToString()); }

static std::string Normal(absl::string_view address) {
  const absl::StatusOr<HostPort> host_port = HostPort::Parse(address);
  return host_port.ok() ? Normal(*host_port) : std::string(address);
}

Guests::Guests(const ClusterSpec& cluster) : cluster_(cluster), seeds_(TasksOf(cluster)) {
  for (const TaskName& task : seeds_) {
    const absl::StatusOr<HostPort> address = HostPort::Parse(cluster.address(task).value_or(""));
    if (address.ok() && address->port != 0) seeds_at_.emplace(Normal(*address), task);
  }
}

absl::Status Guests::CheckName(const TaskName& task) const {
  if (task.job != "worker" || task == ChiefOf(cluster_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(), " cannot join a running job: only a worker can, and not as ",
                     ChiefOf(cluster_).ToString(), ", the chief"));
  }
  if (!cluster_.HasJob("ps")) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(),
                     " cannot join a running job without parameter servers: its replicas are those of the "
                     "cluster spec"));
  }
  ClusterSpec alone;
  if (absl::Status added = alone.AddTask(task, "anywhere:1"); !added.ok()) {
    return absl::Status(added.code(), absl::StrCat("a task that joins: ", added.message()));
  }
  if (IsGuest(task) || !is_full()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(kMaxGuests,
                                                   " tasks have joined this job, and none of them",
                                                   " has ended: ", task.ToString(), " cannot join"));
}

absl::Status Guests::Check(const TaskName& task, absl::string_view address) const {
  WEIR_RETURN_IF_ERROR(CheckName(task));
  if (address.size() > kMaxAddressBytes) {
    return absl::InvalidArgumentError(absl::StrCat(task.ToString(), " joins with an address of ",
                                                   address.size(), " bytes: at most ", kMaxAddressBytes,
                                                   " are one"));
  }
  const absl::StatusOr<HostPort> host_port = HostPort::Parse(address);
  if (!host_port.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(), " joins: ", host_port.status().message()));
  }
  if (const auto seed = seeds_at_.find(Normal(*host_port)); seed != seeds_at_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(task.ToString(), " joins from '", address,
                                                   "', an address that already belongs to ",
                                                   seed->second.ToString()));
  }
  if (host_port->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(), " joins without a port at which others find it: ", address));
  }
  return absl::OkStatus();
}

void Guests::Forget(const TaskName& task) {
  const auto found = guests_.find(task);
  if (found == guests_.end()) return;
  at_.erase(Normal(found->second.address));
  guests_.erase(found);
}

void Guests::Promise(const TaskName& task, Incarnation life, absl::string_view address) {
  Guest& guest = guests_[task];
  guest.promised = life;
  guest.promised_address = std::string(address);
}

void Guests::OnLife(const TaskName& task, Incarnation life) {
  const auto found = guests_.find(task);
  if (found == guests_.end() || found->second.promised != life) return;
  Set(task, std::exchange(found->second.promised_address, ""));
  found->second.promised = 0;
}

void Guests::Set(const TaskName& task, absl::string_view address) {
  Guest& guest = guests_[task];
  if (guest.address == address) return;
  at_.erase(Normal(guest.address));
  guest.address = std::string(address);
  if (address == kNowhere) return;
  TaskName& owner = at_.try_emplace(Normal(guest.address), task).first->second;
  if (owner != task) guests_[std::exchange(owner, task)].address = kNowhere;
}

const TaskName* Guests::FindAt(absl::string_view address) const {
  const auto found = at_.find(Normal(address));
  return found == at_.end() ? nullptr : &found->second;
}

std::string Guests::AddressOf(const TaskName& task) const {
  const auto found = guests_.find(task);
  return found == guests_.end() ? std::string() : found->second.address;
}

}  // namespace weir
