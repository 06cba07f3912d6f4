// Which of the messages with tensors for steps have been delivered: a sender repeats one when its connection
// breaks, and it must not look like a second tensor for its edge. A delivery that failed may be tried again,
// so that the sender hears why.
//
// A sender numbers its messages to one receiver, from 1 on, and each says below which number all have been
// answered: a late repetition of one of these is dropped, and nothing is remembered for them. So what is
// remembered is exact, however many tasks send how fast; its bounds are kMaxUnanswered for each sender and
// kMaxSenders. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "distributed/life.h"
#include "distributed/peers/worker_protocol.h"

namespace weir {

class DeliveredMessages {
 public:
  enum class State { kNew, kUnderWay, kDelivered };
  // A sender keeps to a window of this many numbers; a receiver holds twice as many of it.
  static constexpr uint64_t kWindow = 4096;
  static constexpr size_t kMaxUnanswered = 2 * kWindow;
  static constexpr size_t kMaxSenders = 100'000;

  // What had become of it before. kNew: the caller is to deliver it, and then calls End. ResourceExhausted
  // when the sender has more than kMaxUnanswered messages that it does not call answered.
  absl::StatusOr<State> Begin(Incarnation sender, const MessageNumber& message);
  void End(Incarnation sender, uint64_t number, bool is_delivered);
  // A life that is over sends nothing more.
  void Forget(Incarnation sender);

 private:
  struct Sender {
    uint64_t answered_below = 0;
    std::map<uint64_t, State> states;  // of the others
  };

  absl::Mutex mutex_;
  std::map<Incarnation, Sender> senders_ ABSL_GUARDED_BY(mutex_);  // lives that began earlier come first
};

}  // namespace weir
