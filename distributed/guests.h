// Tasks that join a running job: who may, and where each of them is.
//
// The cluster spec names the tasks that a job begins with. A training task that it does not name is a guest.
// It may join while the job runs, when the authority was told to let guests in (ServerOptions::max_workers)
// and has a place free for it (places.h). It brings its own address, which views (view.h) tell the others. A
// process that was only silent may come back under its name, so names are kept; when kMaxGuests have come,
// the next one replaces one that has ended.
//
// An address belongs to one task. A guest that is found where another one was, which has left, has it from
// then on, and nobody looks for the other one there any more. Nobody has an address of the cluster spec; what
// is compared is the text, with the host in small letters and the port as a number.
//
// Not thread-safe: Membership has it under its lock. Pure bookkeeping.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "distributed/cluster_spec.h"
#include "distributed/life.h"
#include "distributed/task_name.h"

namespace weir {

class Guests {
 public:
  static constexpr size_t kMaxGuests = 10'000;
  static constexpr size_t kMaxAddressBytes = 300;
  static constexpr char kNowhere[] = "?";

  explicit Guests(const ClusterSpec& cluster);

  // Whether a task of that name has been let in, or a view has told of it.
  bool IsGuest(const TaskName& task) const { return guests_.contains(task); }
  // Whether the cluster spec names it.
  bool IsSeed(const TaskName& task) const { return seeds_.contains(task); }

  // Whether a guest may have that name: a worker with an index that tasks may have and that is not the
  // chief's, of a cluster with parameter servers. InvalidArgument, or ResourceExhausted beside kMaxGuests
  // others.
  absl::Status CheckName(const TaskName& task) const;
  // The same, and whether it may come from that address: a host and a port that no task of the cluster spec
  // has. InvalidArgument too.
  absl::Status Check(const TaskName& task, absl::string_view address) const;

  bool is_full() const { return guests_.size() >= kMaxGuests; }
  // Its name and its address may be those of others.
  void Forget(const TaskName& task);

  // Of the authority: when that life of the guest is heard, it is there.
  void Promise(const TaskName& task, Incarnation life, absl::string_view address);
  void OnLife(const TaskName& task, Incarnation life);

  // From now on it is there.
  void Set(const TaskName& task, absl::string_view address);
  // The guest that is there; null for nobody.
  const TaskName* FindAt(absl::string_view address) const;
  // Empty of a task that is no guest, kNowhere of one whose address another one has now.
  std::string AddressOf(const TaskName& task) const;

 private:
  struct Guest {
    std::string address;
    Incarnation promised = 0;
    std::string promised_address;
  };

  const ClusterSpec cluster_;
  const std::set<TaskName> seeds_;
  std::map<std::string, TaskName> seeds_at_;
  std::map<TaskName, Guest> guests_;
  std::map<std::string, TaskName, std::less<>> at_;  // who is at an address
};

}  // namespace weir
