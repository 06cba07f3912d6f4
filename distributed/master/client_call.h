// A client's call for a step: when it must be over, who waits for it, and what ends when nobody does.
//
// A client whose connection broke asks for the same again, under the same request id: so the step of a call
// that has one goes on for a while after the last who waited for it is gone (Outlives).
//
// Shared. Thread safety: all methods.
#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/master/open_work.h"
#include "session/step.h"

namespace weir {

class ClientCall : public std::enable_shared_from_this<ClientCall> {
 public:
  // How long a step waits for its client to ask again. gRPC connects again at once, or after a second or two.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // `deadline`: when the client stops waiting.
  ClientCall(Environment& environment, OpenWork& work, absl::Time deadline);

  // When the answer must be ready: a little earlier, so that the client gets the server's error, which says
  // what was waited for, instead of its own.
  absl::Time deadline() const { return deadline_; }

  // The client may ask again: what runs for the call is not given up before `patience` has passed.
  void Outlives(absl::Duration patience);

  // The call asks for what `first` does already: it does nothing itself.
  void Repeats(std::shared_ptr<ClientCall> first);

  // The client has cancelled, run out of time, or gone: the step ends, unless somebody else waits for it or
  // may come.
  void Gone();

  // What runs for the call; null: it is over.
  void SetStep(std::shared_ptr<Step> step);

  bool is_given_up() const;

  // Read only by a client that asks again after its step was given up: it may begin a session anew.
  static absl::Status GivenUp() {
    return absl::AbortedError("the step was ended because the connection of its client broke");
  }

 private:
  void Join();   // one more client's call waits
  void Leave();  // one less
  // Unless somebody has come since that departure.
  void GiveUpIfAlone(int64_t departure);

  Environment& environment_;
  OpenWork& work_;
  const absl::Time deadline_;
  mutable absl::Mutex mutex_;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 1;         // clients' calls
  int64_t num_departures_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last one that waited
  absl::Duration patience_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  bool is_gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ClientCall> first_ ABSL_GUARDED_BY(mutex_);  // that it repeats
  std::shared_ptr<Step> step_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
