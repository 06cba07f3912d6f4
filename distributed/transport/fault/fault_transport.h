// A transport that fails on demand: wraps a real one, so that faults come through the same door as reality.
//
// Faults are rules, tried in the order they were added; the first that matches a call decides. Thread safety:
// all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/transport.h"

namespace weir {

struct Fault {
  enum class Action {
    kDropRequest,  // never delivered: the caller sees its deadline (or waits for ever without one)
    kDropReply,    // executed, but the answer is lost: the caller sees Unavailable
    kDelay,        // delivered after `delay`
    kDuplicate,    // delivered twice; the caller sees the first answer
    kClose,        // the connection breaks at once: Unavailable, not executed
    kPauseAfter,   // answered; the handler's thread goes on with what follows its answer after `delay`
  };
  Action action = Action::kClose;
  std::string method;  // calls whose method contains this; empty: all
  std::string job;     // calls to tasks of this job; empty: all. kPauseAfter knows neither job nor task
  int task = -1;       // -1: all
  absl::Duration delay = absl::ZeroDuration();
  int skip = 0;         // let this many matching calls pass first
  int count = 1 << 30;  // then hit this many
};

class FaultTransport final : public Transport {
 public:
  explicit FaultTransport(std::unique_ptr<Transport> wrapped);
  ~FaultTransport() override;

  void Add(Fault fault);
  void Clear();
  // How many calls were hit so far.
  int num_hits() const;

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer, const std::string& address) override;
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override;

 private:
  class FaultChannel;

  // The fault that hits this call, on its caller's side or (a null `peer`) on its handler's; counts it.
  bool Match(const TaskName* peer, absl::string_view method, Fault* fault);

  mutable absl::Mutex mutex_;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  int num_hits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Transport> wrapped_;
  TimerQueue timers_;
};

}  // namespace weir
