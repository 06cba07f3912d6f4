// One connected socket that carries messages both ways (socket_message.h).
//
// Send writes what fits into the socket at once, on the caller's thread; the rest waits in a queue and leaves
// on the poller's threads as the other side reads. Payloads are sent from their own buffers, which the queue
// keeps alive. One thread at a time reads a message; while it hands the message on, another thread reads the
// next one. So messages may overtake one another. While more than `max_queued_bytes` wait to be sent nothing
// is read, so that a side that asks without taking the answers cannot fill this one's memory. (Who asks reads
// all the same: two sides that both wait for the other to read would wait for ever.)
//
// Small messages go before large ones, which leave in pieces (socket_message.h): one that is queued waits for
// a piece, not for all that is queued. So messages leave in the order of Send only among the small ones, and
// among the large ones. What cancels a large request stays behind it, what cancels another one does not.
//
// A message whose payloads are lent leaves without them; they are read out of the sender's memory by the
// thread that hands the message on, so that several are read at once. A side closes the connection before it
// frees what it has lent. So a connection that is still open after the read proves that the bytes were valid.
//
// Thread safety: all methods. Lives in a shared_ptr; borrows the poller until it is closed.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "distributed/transport/sockets/socket_message.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "distributed/transport/tls/byte_stream.h"

namespace weir {

class SocketConnection : public SocketPoller::Socket, public std::enable_shared_from_this<SocketConnection> {
 public:
  // Takes the descriptor over, and its stream.
  SocketConnection(int fd, std::unique_ptr<ByteStream> stream, SocketPoller& poller,
                   SocketMessageReader reader, size_t max_queued_bytes)
      : fd_(fd),
        stream_(std::move(stream)),
        poller_(poller),
        max_queued_bytes_(max_queued_bytes),
        reader_(std::move(reader)) {}
  ~SocketConnection() override;

  // Begins to read. Possible errors: ResourceExhausted (the system refuses), Cancelled (closed already).
  absl::Status Start();

  // A message for a closed connection is dropped. May come before Start: what the socket does not take then
  // leaves after it.
  void Send(const SocketMessage& message);

  // Removes a request from the queue. False when its first byte has been sent or is just being sent.
  bool Withdraw(uint64_t call);

  // Ends the connection, for this reason; later reasons are dropped. Messages that were read may still be
  // handed on.
  void Close(const absl::Status& reason);

  void OnReady(uint32_t events) final;

 protected:
  // Where a payload's bytes shall go (PayloadPlacement).
  virtual Payload Place(const SocketMessage& message, size_t index, size_t num_bytes) = 0;
  // In the order of the messages, on one thread at a time, before the next one is read. An error closes.
  virtual absl::Status Admit(const SocketMessage& message, SocketMessageReader* reader) = 0;
  // In any order, on any thread.
  virtual void OnMessage(SocketMessage message) = 0;
  // Called once, on the thread that closes, without any lock. What was lent may be freed from now on.
  virtual void OnClosed(const absl::Status& reason) = 0;

  SocketPoller& poller() { return poller_; }
  int fd() const { return fd_; }

 private:
  // A message, or what is left of it. It leaves in units, which nothing may interrupt: the message, or its
  // beginning and then each piece.
  struct Outgoing {
    SocketMessage::Kind kind = SocketMessage::Kind::kHello;
    uint64_t call = 0;
    std::vector<Payload> payloads;
    size_t num_bytes = 0;
    bool is_large = false;  // it leaves among the large ones
    bool has_begun = false;
    std::string begin;  // of the unit: all but the payloads
    size_t num_begin_sent = 0;
    size_t num_left_in_unit = 0;  // bytes of payloads
    size_t num_left_beyond = 0;   // in units to come
    PayloadPosition next;

    bool is_unit_sent() const { return num_begin_sent == begin.size() && num_left_in_unit == 0; }
    bool is_sent() const { return is_unit_sent() && num_left_beyond == 0; }
    void BeginPiece();
  };

  void Flush();
  bool HasQueuedLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return unfinished_.has_value() || !small_.empty() || !large_.empty();
  }
  // What is to leave next; there must be something.
  Outgoing TakeNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what the socket takes of the unit.
  absl::Status Write(Outgoing* message);
  void ReadOne();
  // Fetches what was lent.
  absl::Status Borrow(SocketMessage* message);
  // Arms the socket for the events that are wanted now, unless it is armed for them already.
  void ArmLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  const std::unique_ptr<ByteStream> stream_;
  SocketPoller& poller_;
  const size_t max_queued_bytes_;
  SocketMessageReader reader_;  // of the thread that reads
  absl::Mutex mutex_;
  SocketPoller::Id id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t armed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_flushing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Outgoing> unfinished_ ABSL_GUARDED_BY(mutex_);  // its unit has left in part
  std::deque<Outgoing> small_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> large_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> large_requests_ ABSL_GUARDED_BY(mutex_);  // that have not left, or in part
  size_t num_small_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // that have left since the last piece
  size_t num_queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir
