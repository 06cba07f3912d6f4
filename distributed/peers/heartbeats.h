// Keeps leases alive: says regularly to every peer that matters that this task lives, and looks for leases
// that ran out.
//
// Peers that matter: those given at the start, and all that were called since. When a peer answers that it
// has declared this task lost, this task takes a new life (Membership::Rejoin).
//
// Runs on the timer thread of Peers. Borrows it; must be destroyed before it.
#pragma once

#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peers/peers.h"

namespace weir {

class Heartbeats {
 public:
  // Starts at once. An interval of a fifth of the lease survives several lost messages.
  Heartbeats(Peers& peers, std::set<TaskName> watched, absl::Duration interval);
  // No heartbeat is sent after it returns.
  ~Heartbeats();

 private:
  struct State {
    absl::Mutex mutex;
    bool is_stopped ABSL_GUARDED_BY(mutex) = false;
  };

  void Beat();
  void Send(const TaskName& peer);

  Peers& peers_;
  const std::set<TaskName> watched_;
  const absl::Duration interval_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace weir
