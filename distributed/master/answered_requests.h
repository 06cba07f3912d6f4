// What clients have asked of a method under a request id: one that comes again, because a connection broke
// before its answer, gets the same answer and is not run a second time. Another request under an id that was
// used is refused with Aborted; its size, beginning and end tell it apart.
//
// A repetition that comes while the first is under way waits for its answer, and the first goes on for it
// (client_call.h). Small answers are kept for a while: those of the newest kMaxRequests. A large one is kept
// until the next request of its session begins, for it holds the buffers of tensors, and only if there is
// room for it; the oldest large one goes when something else finds no room. What was answered and is not kept
// any more is refused with Aborted, as long as its id is known: a request that comes again after kMaxRequests
// others were answered is a new one.
//
// Thread safety: all methods. Replies are given without a lock.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "distributed/master/client_call.h"
#include "distributed/peer_limits.h"
#include "distributed/transport/frame.h"
#include "distributed/transport/transport.h"

namespace weir {

class AnsweredRequests {
 public:
  static constexpr size_t kMaxRequests = 10'000;
  static constexpr size_t kSmallBytes = 8 << 10;
  static constexpr size_t kMaxWaiting = 64;  // repetitions of one request

  // Each method of a session counts for itself: a client need not know what another one has used.
  struct Key {
    std::string session;
    std::string method;
    int64_t request_id = 0;

    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.session, key.method, key.request_id);
    }
  };

  // Room for a large answer; an error when there is none.
  using TakeRoom = absl::AnyInvocable<absl::StatusOr<PeerUse::Share>(int64_t num_bytes) const>;

  explicit AnsweredRequests(TakeRoom take_room) : take_room_(std::move(take_room)) {}

  // Tells the messages of requests apart, in constant time.
  static size_t FingerprintOf(absl::string_view message);

  // True for the first request of that key, which the caller then answers with Answer. Otherwise `call` is
  // answered here, now or later. `fingerprint`: of its message.
  bool Begin(const Key& key, size_t fingerprint, const std::shared_ptr<IncomingCall>& call,
             const std::shared_ptr<ClientCall>& client);

  // The answer of a request that has begun: to `call` and to all repetitions.
  void Answer(const Key& key, IncomingCall& call, absl::StatusOr<Frame> reply);

  // A session is closed: nobody asks for its large answers again, and those that are still to come are not
  // kept.
  void Forget(const std::string& session);

  // Drops the large answer that has been kept longest, with its room. False: none is kept.
  bool DropOldest();

 private:
  struct Kept {
    absl::StatusOr<Frame> reply;
    PeerUse::Share room;
  };
  using Reply = std::shared_ptr<const Kept>;
  struct Request {
    size_t fingerprint = 0;
    Reply answer;  // null: under way, or not kept any more
    bool is_over = false;
    bool is_forgotten = false;           // its session was closed while it was under way
    std::shared_ptr<ClientCall> client;  // while it is under way
    std::vector<std::shared_ptr<IncomingCall>> waiting;
  };

  // Of the session; what is returned is to be destroyed without the lock.
  Reply DropLarge(const std::string& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TakeRoom take_room_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> over_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::list<Key> large_ ABSL_GUARDED_BY(mutex_);  // kept ones, oldest first
  absl::flat_hash_map<std::string, std::list<Key>::iterator> large_of_ ABSL_GUARDED_BY(mutex_);  // session
};

}  // namespace weir
