// What clients have asked under a request id: one that comes again, because a connection broke before its
// answer, gets the same answer and is not run a second time.
//
// A repetition that comes while the first is under way waits for its answer. Small answers are kept for a
// while: those of the newest kMaxRequests. A large one is kept until the next request of its session begins,
// for it holds the buffers of tensors. What was answered and is not kept any more is refused with Aborted, as
// long as its id is known.
//
// Thread safety: all methods. Replies are given without a lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "distributed/transport/frame.h"
#include "distributed/transport/transport.h"

namespace weir {

class AnsweredRequests {
 public:
  static constexpr size_t kMaxRequests = 10'000;
  static constexpr size_t kSmallBytes = 8 << 10;
  static constexpr size_t kMaxWaiting = 64;  // repetitions of one request

  using Key = std::pair<std::string, int64_t>;  // session, request id

  // True for the first request of that key, which the caller then answers with Answer. Otherwise `call` is
  // answered here, now or later.
  bool Begin(const Key& key, const std::shared_ptr<IncomingCall>& call);

  // The answer of a request that has begun: to `call` and to all repetitions.
  void Answer(const Key& key, IncomingCall& call, absl::StatusOr<Frame> reply);

  // A session is closed: nobody asks for its large answer again.
  void Forget(const std::string& session);

 private:
  using Reply = std::shared_ptr<const absl::StatusOr<Frame>>;
  struct Request {
    Reply answer;  // null: under way, or not kept any more
    bool is_over = false;
    std::vector<std::shared_ptr<IncomingCall>> waiting;
  };

  absl::Mutex mutex_;
  absl::flat_hash_map<Key, Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> over_ ABSL_GUARDED_BY(mutex_);                         // oldest first
  absl::flat_hash_map<std::string, Key> large_ ABSL_GUARDED_BY(mutex_);  // kept ones, by session
};

}  // namespace weir
