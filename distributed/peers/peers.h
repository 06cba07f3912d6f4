// This task's calls to the others: channels by task, envelopes, retries, and the end of calls to tasks that
// are lost.
//
// Channels are opened by the first call, and anew when the peer was lost or has a new life, or a call asks
// for it: its host name may stand for another machine by then. Where guests are (guests.h) membership knows.
// A call waits until this task has a life (authority.h), which it carries (what begins a step also waits
// while this task's lease is in doubt), and is meant for the life of the peer that membership knows; each
// reply counts as a sign of life. When this task is superseded every call ends with that error, and so do
// later ones. A call to a peer that is lost already may find it again, for it may only be silent; it has a
// lease for that. A call whose connection broke is made again with the same bytes for a while, so every
// request must be safe to repeat (worker_service.h keeps answers for that).
//
// Thread safety: all methods. Borrows transport and membership. `done` runs once, on a thread of the
// transport or of the timer; it must not block.
#pragma once

#include <functional>
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
  // By a new connection: another process may have the peer's address by now.
  bool anew = false;
  // Whether the peer may say that this task was superseded.
  bool may_end_this_life = true;
  // Also while this task has no life yet: what asks for one.
  bool before_own_life = false;
  // Begins something that this task may only begin while it is sure to be alive for the others
  // (Membership::HoldsLease); until then the call waits, unless the peer itself is lost.
  bool needs_lease = false;
  // When the peer cannot be reached in the end, the error says whether others can (SetLinkCheck).
  bool names_link = false;
  // Is still to be said to a peer that is lost and may only be silent: until a later life of it is known.
  bool outlives_silence = false;
  // An error that the peer's method replies is a PeerReply too (refusal): what follows it is wanted.
  bool reads_refusals = false;
  // How long a broken connection is tried again.
  absl::Duration retry_for = absl::Seconds(1);
};

// What a method replied, behind the status: header() is what follows it.
struct PeerReply {
  Incarnation life = 0;  // of who replied; 0: it has none yet
  absl::Status refusal;  // OK unless PeerCallOptions::reads_refusals
  Frame frame;
  size_t header_begin = 0;
  absl::string_view header() const { return absl::string_view(frame.header).substr(header_begin); }
};

class Peers {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<PeerReply>)>;

  Peers(ClusterSpec cluster, Transport& transport, Membership& membership);
  ~Peers();

  // Ends every call and refuses further ones, with `reason`, the first one that is given. Does not wait.
  void Shutdown(absl::Status reason = absl::CancelledError("this task is shutting down"));

  // Shutdown, and waits until no call is left. From no callback of a call.
  void ShutdownAndWait();

  // Called when a call fails that names links; calls `then`, once, with what is to be added to its error.
  // Null for none, and then those that are under way go on without.
  using LinkCheck =
      std::function<void(const TaskName& peer, Incarnation life, std::function<void(std::string)> then)>;
  void SetLinkCheck(LinkCheck check);

  // This task has a life, and its lease: the calls that waited for them are made.
  void OnLease();
  // What came of this task's last heartbeat (heartbeats.h): calls that wait for a life or for a lease say it
  // when they end. OK when the authority has answered.
  void NoteAuthoritySaid(const absl::Status& said);
  // Why this task has no life, or no lease, with the authority's name and address.
  std::string WhyItWaits() const;
  // Closes channels to lives that are over when no call uses them any more. From no callback of a call.
  void CloseRetiredChannels();

  // A call that may be ended early, with what `done` is then told.
  class Handle {
   public:
    virtual ~Handle() = default;
    virtual void Cancel(absl::Status reason) = 0;
  };

  // Possible errors: those the method replied; Unavailable (not reachable, or lost: the reason membership
  // gave), Aborted (the peer has restarted), FailedPrecondition (this task was superseded), DeadlineExceeded,
  // NotFound (no such task).
  std::shared_ptr<Handle> Call(const TaskName& peer, absl::string_view method, std::string body,
                               std::vector<Payload> payloads, const PeerCallOptions& options, Done done);

  // Waits for the reply; after 10 s, and then every 10 s, a line on stderr says who is waited for and how
  // long yet.
  absl::StatusOr<PeerReply> CallAndWait(const TaskName& peer, absl::string_view method, std::string body,
                                        std::vector<Payload> payloads, const PeerCallOptions& options);

  // Ends the calls that were meant for a life that is lost.
  void OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason);
  // Ends those that were made when it was lost already, and have waited for a lease. To be called several
  // times per lease.
  void EndCallsToTheLost();

  // Tasks that were called at least once: those whose life matters to this task.
  std::set<TaskName> contacted() const;

  // "?" of a task that the cluster does not have.
  std::string AddressOf(const TaskName& peer) const;
  // Where the others find this task, when its cluster spec leaves the port open. Before the first call.
  void SetOwnAddress(const std::string& address);
  Membership& membership() { return membership_; }
  Timers& timers() { return *timers_; }
  Environment& environment() { return environment_; }

 private:
  class PendingCall;

  // Opened for this life of the peer; 0: whichever it meets first.
  struct OpenChannel {
    std::shared_ptr<Channel> channel;
    Incarnation life = 0;
  };

  // `of_guest`: Membership::AddressOfGuest.
  absl::StatusOr<std::string> FindAddress(const TaskName& peer, const std::string& of_guest) const;
  absl::StatusOr<std::shared_ptr<Channel>> FindChannel(const TaskName& peer, bool anew);
  // Decides for which life the call is meant.
  void Address(PendingCall* call);
  // Whether the call ends with the loss of its addressee, which may only be silent.
  bool EndsWithLoss(const PendingCall& call) const;
  // Whether the call has to wait for a life, or for a lease.
  bool MustWait(const PendingCall& call) const;
  // False when there is nothing to wait for.
  bool Park(std::shared_ptr<PendingCall> call);
  bool Unpark(PendingCall* call);
  void Forget(PendingCall* call);

  // In the order in which they were made, whatever order the set has them in.
  static void Sort(std::vector<std::shared_ptr<PendingCall>>* calls);

  Environment& environment_;
  const ClusterSpec cluster_;
  Transport& transport_;
  Membership& membership_;

  mutable absl::Mutex mutex_;
  std::string own_address_ ABSL_GUARDED_BY(mutex_);  // empty: that of the cluster spec
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);      // not OK: why there are no more calls
  LinkCheck link_check_ ABSL_GUARDED_BY(mutex_);
  absl::Status authority_said_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TaskName, OpenChannel> channels_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Channel>> retired_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<PendingCall>> parked_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<PendingCall>> pending_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<Timers> timers_;  // last: its thread uses what is above
};

}  // namespace weir
