// Which of the messages with tensors for steps (PushTensors) have been delivered: a sender repeats one when
// its connection breaks, and it must not look like a second tensor for its edge. A delivery that failed may
// be tried again, so that the sender hears why.
//
// Bounds: the last kRemembered are known. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "distributed/life.h"

namespace weir {

class DeliveredPushes {
 public:
  using Push = std::pair<Incarnation, uint64_t>;  // the sender's life, and its number of the message
  enum class State { kNew, kUnderWay, kDelivered };
  static constexpr size_t kRemembered = 4096;

  // What had become of it before. kNew: the caller is to deliver it, and then calls End.
  State Begin(const Push& push);
  void End(const Push& push, bool is_delivered);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<Push, State> states_ ABSL_GUARDED_BY(mutex_);
  std::deque<Push> order_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace weir
