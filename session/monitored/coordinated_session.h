// One session of a MonitoredSession with the threads that hooks start for it (TensorFlow's
// _CoordinatedSession). When a peer is lost, the next session gets a coordinator of its own.
//
// A thread that does not stop in time may outlive this object. It finds its coordinator stopped and its
// session closed, both of which live as long as it does; the graph and the workers need not.
//
// Thread safety: StopThreadsSoon from any thread, everything else from one at a time.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "session/monitored/coordinator.h"
#include "session/session.h"

namespace weir {

class CoordinatedSession {
 public:
  struct Options {
    // How long threads may take to stop, before the session is closed under them.
    absl::Duration stop_grace_period = absl::Minutes(2);
    // How long they go on after StopThreadsSoon, for a step that waits for what they bring.
    absl::Duration step_grace_period = absl::Seconds(5);
  };
  CoordinatedSession(std::unique_ptr<Session> session, const Options& options);

  Session& session() { return *session_; }
  Coordinator& coordinator() { return coordinator_; }

  // Stops the threads when step_grace_period is over, unless Close comes first.
  void StopThreadsSoon();
  // Stops the threads, waits for them, closes the session. Names on stderr threads that go on nevertheless.
  // Returns the error of a thread.
  absl::Status Close();
  // The same for a session that has lost a peer. It is closed first: no thread waits for one of its steps,
  // and none closes a queue that the next session needs.
  void CloseLost();

 private:
  absl::Status JoinThreads();

  const Options options_;
  const std::shared_ptr<Session> session_;  // also kept by the coordinator
  Coordinator coordinator_;
  std::atomic<bool> stops_soon_{false};
};

}  // namespace weir
