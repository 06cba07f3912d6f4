// Whether a call that came in has been answered, or given up by its client: what every Listener knows of it,
// so that IncomingCall::Reply and OnCancel mean the same in all transports.
//
// Thread safety: all methods. No callback runs, or is destroyed, under the lock.
#pragma once

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace weir {

class PendingReply {
 public:
  // For IncomingCall::Reply: true for the first reply. Later ones are to be dropped. A call that was given up
  // may be answered all the same.
  bool BeginReply();

  // For IncomingCall::OnCancel: runs `callback` once if the call is given up before its reply; at once if it
  // has been already. At most one callback.
  void OnGivenUp(std::function<void()> callback);

  // The client has cancelled, run out of time, or gone away. Nothing happens after the reply.
  void GiveUp();

 private:
  absl::Mutex mutex_;
  bool has_replied_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_given_up_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
