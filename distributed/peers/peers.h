// This task's calls to the others: channels by task, envelopes, retries, and the end of calls to tasks that
// are lost.
//
// Channels are opened by the first call. Each call carries this task's life and is meant for the life of the
// peer that membership knows; each reply counts as a sign of life. A call whose connection broke is made
// again with the same bytes for a while, so every request must be safe to repeat (worker_service.h keeps
// answers for that).
//
// Thread safety: all methods. Borrows transport and membership. `done` runs once, on a thread of the
// transport or of the timer; it must not block.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "distributed/cluster_spec.h"
#include "distributed/membership.h"
#include "distributed/transport/transport.h"
#include "kernels/environment.h"

namespace weir {

struct PeerCallOptions {
  absl::Time deadline = absl::InfiniteFuture();
  // The peer may still be starting: keep connecting until the deadline.
  bool wait_for_ready = false;
  // Also a life of the peer that is not known yet.
  bool any_life = false;
  // How long a broken connection is tried again.
  absl::Duration retry_for = absl::Seconds(1);
};

// What a method replied, behind the status: header() is what follows it.
struct PeerReply {
  Frame frame;
  size_t header_begin = 0;
  absl::string_view header() const { return absl::string_view(frame.header).substr(header_begin); }
};

class Peers {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<PeerReply>)>;

  Peers(ClusterSpec cluster, Transport& transport, Membership& membership);
  ~Peers();

  // Ends every call and refuses further ones, with Cancelled. Does not wait.
  void Shutdown();

  // A call that may be ended early, with what `done` is then told.
  class Handle {
   public:
    virtual ~Handle() = default;
    virtual void Cancel(absl::Status reason) = 0;
  };

  // Possible errors: those the method replied; Unavailable (not reachable, or lost: the reason membership
  // gave), Aborted (the peer has restarted, or has declared this task lost), DeadlineExceeded, NotFound (no
  // such task).
  std::shared_ptr<Handle> Call(const TaskName& peer, absl::string_view method, std::string body,
                               std::vector<Payload> payloads, const PeerCallOptions& options, Done done);

  // Waits for the reply; after 10 s, and then every 10 s, a line on stderr says who is waited for and how
  // long yet.
  absl::StatusOr<PeerReply> CallAndWait(const TaskName& peer, absl::string_view method, std::string body,
                                        std::vector<Payload> payloads, const PeerCallOptions& options);

  // Ends the calls that were meant for a life that is over.
  void OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason);

  // Tasks that were called at least once: those whose life matters to this task.
  std::set<TaskName> contacted() const;

  Membership& membership() { return membership_; }
  Timers& timers() { return *timers_; }
  Environment& environment() { return environment_; }

 private:
  class PendingCall;

  absl::StatusOr<Channel*> FindChannel(const TaskName& peer);
  void Forget(PendingCall* call);

  // In the order in which they were made, whatever order the set has them in.
  static void Sort(std::vector<std::shared_ptr<PendingCall>>* calls);

  Environment& environment_;
  const ClusterSpec cluster_;
  Transport& transport_;
  Membership& membership_;

  mutable absl::Mutex mutex_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskName, std::unique_ptr<Channel>> channels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<PendingCall>> pending_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<Timers> timers_;  // last: its thread uses what is above
};

}  // namespace weir
