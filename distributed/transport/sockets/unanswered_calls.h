// The calls of one connection that came in and have not been answered, by their numbers.
//
// A call is admitted when its request has been read, so that what comes after it on the connection finds it,
// and gets its reply's state when the request is handed on. The client may give it up in between.
//
// Thread safety: all methods. No callback runs under the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "distributed/transport/pending_reply.h"

namespace weir {

class UnansweredCalls {
 public:
  explicit UnansweredCalls(size_t max_calls) : max_calls_(max_calls) {}

  // Possible errors: AlreadyExists (a call of that number has no answer yet), ResourceExhausted (too many
  // have none), Cancelled (closed).
  absl::Status Admit(uint64_t number);

  // Of an admitted call. False when it is known no more, because of Close. Gives the call up if the client
  // has done so meanwhile.
  bool Begin(uint64_t number, const std::shared_ptr<PendingReply>& reply);

  // The client does not want the answer any more. Numbers of no unanswered call are ignored.
  void GiveUp(uint64_t number);

  // It has been answered.
  void Remove(uint64_t number);

  // The client is gone: gives all calls up and admits no more.
  void Close();

 private:
  struct Call {
    std::weak_ptr<PendingReply> reply;  // once the request has been handed on
    bool is_given_up = false;
  };

  const size_t max_calls_;
  absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = true;
  absl::flat_hash_map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
