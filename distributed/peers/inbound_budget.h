// How many bytes of tensors all senders together may have on their way to this task.
//
// A sender bounds what it has under way to a peer (tensor_pusher.h), but knows nothing of the others: with a
// thousand workers their bounds are no bound of the ps. So the receiver divides one budget among those that
// send to it: each answer to a push says how much its sender may have under way from now on, its window. A
// sender begins with kFirstWindow, and one message may always go when nothing else is under way. So a window
// delays messages and holds none up for good, and what is delivered waits for no other tensor: nothing here
// can wait in a circle.
//
// What a sender may have under way is what it was granted last, or what it had before, less what was answered
// since. The sum of that is kept within the budget, as far as everybody's least window allows:
// min(kLeastWindow, the budget divided by the number of senders). So a new sender begins with a small window
// while others have theirs, which shrink with their next answers. Senders that come all at once have
// kFirstWindow each, or one message, whatever the budget is.
//
// A window comes back from a sender that is idle, without a message of its own. A sender uses at most
// kFirstWindow when its last answer came longer than kWindowLasts ago. A receiver forgets a sender from which
// nothing has come for kForgottenAfter, which is longer by what messages and answers may take on their way;
// when it comes again it is as new.
//
// Answers that are errors say the window too. A sender that gets no answer, or an error without a window,
// does not know what it may have: it sends one message at a time until an answer says so.
//
// A message that its sender has no window for is refused with Unavailable: Peers tries it again for a while.
// An honest sender seldom meets that: where its receiver was started anew or has forgotten it after a
// silence. It bounds one that does not care for its window.
//
// Not counted: what a step's first message brings (RunPartition), and collectives, whose ranks wait for each
// other (collectives/lane.h). A window cannot keep a hostile sender's bytes out of the transport's buffers,
// which have their own limits; they are dropped when they have come.
//
// Thread safety: all methods. Borrows the environment. An Arrival may outlive the budget.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/life.h"
#include "distributed/transport/wire.h"
#include "kernels/environment.h"

namespace weir {

// Later ones of a receiver have greater numbers; 0: none was said.
struct InboundWindow {
  uint64_t number = 0;
  int64_t bytes = 0;

  // Behind what the answer to a push says. One of a version that says none, or nothing that is one, is
  // number 0.
  void EncodeTo(WireWriter* writer) const;
  static InboundWindow DecodeFrom(WireReader* reader);
};

class InboundBudget {
 public:
  static constexpr int64_t kFirstWindow = 4 << 20;
  static constexpr int64_t kLeastWindow = 1 << 20;
  static constexpr int64_t kMostWindow = 256 << 20;
  static constexpr absl::Duration kWindowLasts = absl::Seconds(5);
  static constexpr absl::Duration kForgottenAfter = absl::Seconds(15);

  // 0: an eighth of this machine's memory.
  explicit InboundBudget(int64_t bytes, Environment& environment = RealEnvironment());

  // A message that has come and is not delivered yet.
  class Arrival;

  // Possible errors: Unavailable, naming the sizes, when the sender has more on its way than it may.
  absl::StatusOr<Arrival> Arrive(Incarnation sender, int64_t num_bytes);
  // For the answer to a message of that many bytes, also one that is refused; 0 for one that was answered
  // before. Number 0 for a sender whose life is over, or of which nothing has arrived.
  InboundWindow Answer(Incarnation sender, int64_t num_bytes);
  // A life that is over sends nothing more.
  void Forget(Incarnation sender);

  struct Use {
    int64_t budget = 0;
    int64_t granted = 0;  // what all senders may have under way
    int64_t arrived = 0;  // and is not delivered
    int64_t senders = 0;
    int64_t refused = 0;  // messages, since the start
  };
  Use use() const;

 private:
  struct Sender {
    int64_t may_have = kFirstWindow;  // under way
    int64_t arrived = 0;
    absl::Time last_use;
    std::list<Incarnation>::iterator place;  // in State::by_use
  };
  struct State {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<Incarnation, Sender> senders ABSL_GUARDED_BY(mutex);
    std::list<Incarnation> by_use ABSL_GUARDED_BY(mutex);  // who is idle for longest comes first
    int64_t granted ABSL_GUARDED_BY(mutex) = 0;
    int64_t refused ABSL_GUARDED_BY(mutex) = 0;
    uint64_t last_number ABSL_GUARDED_BY(mutex) = 0;
  };

  Sender& FindOrAddLocked(Incarnation sender) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  void NoteUseLocked(Sender* sender) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  void ForgetLocked(Incarnation sender) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  void ForgetTheIdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  const int64_t bytes_;
  Environment& environment_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class InboundBudget::Arrival {
 public:
  Arrival() = default;  // of nothing
  Arrival(std::shared_ptr<State> state, Incarnation sender, int64_t num_bytes)
      : state_(std::move(state)), sender_(sender), num_bytes_(num_bytes) {}
  Arrival(Arrival&& other) noexcept { *this = std::move(other); }
  Arrival& operator=(Arrival&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(sender_, other.sender_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  ~Arrival();

 private:
  std::shared_ptr<State> state_;
  Incarnation sender_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace weir
