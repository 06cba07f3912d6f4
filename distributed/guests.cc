#include "distributed/guests.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"

namespace weir {

static std::set<TaskName> TasksOf(const ClusterSpec& cluster) {
  const std::vector<TaskName> tasks = cluster.tasks();
  return {tasks.begin(), tasks.end()};
}

Guests::Guests(const ClusterSpec& cluster) : cluster_(cluster), seeds_(TasksOf(cluster)) {}

absl::Status Guests::Check(const TaskName& task, absl::string_view address) const {
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
  if (address.size() > kMaxAddressBytes) {
    return absl::InvalidArgumentError(absl::StrCat(task.ToString(), " joins with an address of ",
                                                   address.size(), " bytes: at most ", kMaxAddressBytes,
                                                   " are one"));
  }
  // Also checks the name.
  ClusterSpec with_it = cluster_;
  if (absl::Status added = with_it.AddTask(task, address); !added.ok()) {
    return absl::Status(added.code(), absl::StrCat("a task that joins: ", added.message()));
  }
  WEIR_ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(address));
  if (host_port.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.ToString(), " joins without a port at which others find it: ", address));
  }
  if (!IsGuest(task) && guests_.size() >= kMaxGuests) {
    return absl::ResourceExhaustedError(absl::StrCat(kMaxGuests,
                                                     " tasks have joined this job: ", task.ToString(),
                                                     " can join under the name of one that has left"));
  }
  return absl::OkStatus();
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
  at_.erase(guest.address);
  guest.address = std::string(address);
  TaskName& owner = at_.try_emplace(guest.address, task).first->second;
  if (owner != task) guests_[std::exchange(owner, task)].address = kNowhere;
}

const TaskName* Guests::FindAt(absl::string_view address) const {
  const auto found = at_.find(address);
  return found == at_.end() ? nullptr : &found->second;
}

std::string Guests::AddressOf(const TaskName& task) const {
  const auto found = guests_.find(task);
  return found == guests_.end() ? std::string() : found->second.address;
}

}  // namespace weir
