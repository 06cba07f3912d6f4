// Tells the kernels and waits of one step that the step is over.
//
// Thread safety: all methods. A callback runs once, on the cancelling thread, or is removed before: after
// Remove returns it neither runs nor will run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace weir {

class Cancellation {
 public:
  using Callback = std::function<void(const absl::Status& reason)>;

  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  absl::Status reason() const;  // OK until cancelled

  // The first call wins; later reasons are dropped. `reason` must not be OK.
  void Cancel(absl::Status reason);

  // Runs `callback` at once (and returns 0) when already cancelled, else registers it and returns its id.
  uint64_t OnCancel(Callback callback);
  // Waits for a callback that is just running, unless called from it. 0 is ignored.
  void Remove(uint64_t id);

  // Makes a used token new: callbacks that are still registered are forgotten. Precondition: nobody else
  // looks at it.
  void Reset();

 private:
  std::atomic<bool> cancelled_{false};
  mutable absl::Mutex mutex_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<uint64_t, Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
  bool running_callbacks_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
