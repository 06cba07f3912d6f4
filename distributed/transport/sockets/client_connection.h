// The client's end of a connection to a listener (socket_transport.h): the calls that have been sent through
// it and not been answered.
//
// It carries calls once the listener has shown that it is the one that gave the ticket, and has welcomed it
// (introduction.h). A listener may never do so: it may have no descriptors left, or too many connections that
// wait, or nobody may be reached at its port. Such a connection is closed after hello_timeout.
//
// Thread safety: all methods. Lives in a shared_ptr; borrows poller and timers until it is over. Every `done`
// is called once.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/sockets/introduction.h"
#include "distributed/transport/sockets/socket_connection.h"
#include "distributed/transport/sockets/socket_transport.h"

namespace weir {

class ClientConnection final : public SocketConnection {
 public:
  using Done = Channel::Done;
  // The connection has ended for this reason, and whether it has ever been welcome. Called once, before it is
  // over.
  using OnEnd = std::function<void(bool was_welcome, const absl::Status& why)>;

  // Takes the descriptor over. `is_local`: the listener is on this machine, and may read this memory.
  ClientConnection(int fd, std::unique_ptr<ByteStream> stream, bool is_local, SocketPoller& poller,
                   TimerQueue& timers, TaskName peer, std::string address,
                   const SocketTransportOptions& options, OnEnd on_end);

  bool is_open() const {
    absl::MutexLock lock(&mutex_);
    return is_open_;
  }
  // It may carry calls.
  bool is_welcome() const {
    absl::MutexLock lock(&mutex_);
    return is_open_ && is_welcome_;
  }

  // Starts it: says hello, and waits for the welcome. Possible errors: ResourceExhausted (the system
  // refuses), Cancelled (it has ended already: OnEnd has said why).
  absl::Status Begin(Ticket ticket);

  // Null, with request and done untouched, when the connection is closed or the server has not welcomed it.
  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame* request, const CallOptions& options,
                                     Done* done);

  // Closed, and every `done` has returned.
  bool is_over() const {
    absl::MutexLock lock(&mutex_);
    return IsOverLocked();
  }
  // Waits until it is over. Another thread may have closed it, and not have called OnClosed yet.
  void CloseAndWait(const absl::Status& reason) {
    Close(reason);
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ClientConnection::IsOverLocked));
  }

 private:
  struct Pending {
    std::string method;
    absl::Time started;
    absl::Time deadline;
    Done done;
    bool was_sent = false;  // the request: it leaves, or waits for that
  };
  struct Lent {
    std::vector<Payload> payloads;
    size_t num_abandoned_bytes = 0;  // once the call has been given up
  };
  class Handle final : public OutgoingCall {
   public:
    Handle(std::shared_ptr<ClientConnection> connection, uint64_t call)
        : connection_(std::move(connection)), call_(call) {}
    void Cancel() override { connection_->GiveUp(call_, absl::CancelledError()); }

   private:
    const std::shared_ptr<ClientConnection> connection_;
    const uint64_t call_;
  };

  Payload Place(const SocketMessage&, size_t, size_t) override { return Payload(); }
  absl::Status Admit(const SocketMessage& message, SocketMessageReader* reader) override;
  void OnMessage(SocketMessage message) override;
  void OnClosed(const absl::Status& reason) override;

  void SayHello();
  // Possible errors: Unauthenticated (who listens is not the one that gave the ticket), InvalidArgument.
  absl::Status AnswerChallenge(const SocketMessage& challenge);
  bool IsOverLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !is_open_ && num_ending_ == 0; }
  // Fills in the loans of a request.
  void LendLocked(SocketMessage* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What was lent for a call, for the caller to free.
  std::vector<Payload> TakeLoans(uint64_t call);
  // A call that was given up keeps what was lent for it; once. False when that is too much with the others.
  bool Abandon(uint64_t call);

  // False when the call is over already.
  bool TakeLocked(uint64_t call, Pending* pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Take(uint64_t call, Pending* pending) {
    absl::MutexLock lock(&mutex_);
    return TakeLocked(call, pending);
  }
  // An error that the transport raises itself.
  void Fail(Pending pending, const absl::Status& reason);
  void End(Pending pending, absl::StatusOr<Frame> result);
  // Ends a call on this side and tells the other.
  void GiveUp(uint64_t call, const absl::Status& reason);
  // Notes that the request was sent. False when the call was given up before: then nobody has cancelled it.
  bool NoteSent(uint64_t call);
  // The request of a call that was given up does not leave, or its cancellation follows it.
  void CancelRequest(uint64_t call);
  void WakeAtFirstDeadline();
  void EndOverdue();

  const bool is_local_;
  const size_t lent_bytes_;
  const size_t max_abandoned_bytes_;
  const absl::Duration hello_timeout_;
  const uint64_t max_message_bytes_;
  TimerQueue& timers_;
  const TaskName peer_;
  const std::string address_;
  const OnEnd on_end_;
  enum class Stage { kHello, kProof, kWelcome };
  Stage stage_ = Stage::kHello;   // of the introduction, what came last; of the thread that reads
  Introduction introduction_;     // likewise, once begun
  std::array<char, 16> proof_{};  // the server shows that it can read this memory by finding it here
  mutable absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_welcome_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_lend_ ABSL_GUARDED_BY(mutex_) = false;
  // Payloads that the server may be reading. They stay until it has answered, even if the call was given up.
  absl::flat_hash_map<uint64_t, Lent> lent_ ABSL_GUARDED_BY(mutex_);
  size_t num_abandoned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_ending_ ABSL_GUARDED_BY(mutex_) = 0;  // taken, and `done` has not returned
  uint64_t next_call_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> given_up_early_ ABSL_GUARDED_BY(mutex_);  // before their requests were sent
  std::set<std::pair<absl::Time, uint64_t>> deadlines_ ABSL_GUARDED_BY(mutex_);  // those that are finite
  absl::Time wakes_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace weir
