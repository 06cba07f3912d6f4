// Lets this task join the cluster and keeps leases alive: asks the authority for a life (authority.h), says
// regularly to every peer that matters that this task lives, and looks for leases that ran out.
//
// Peers that matter: the authority, those given at the start, and all that were called since. To the
// authority the heartbeat is the request to join again, so that one that has restarted hears of the lives
// that there are. A peer that knows a later life of this task says so in its answer
// (Membership::OnReplyStatus).
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
  void SendAll();
  void Join();
  void OnJoined(Incarnation life);
  void Send(const TaskName& peer);

  Peers& peers_;
  const std::set<TaskName> watched_;
  const absl::Duration interval_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace weir
