// A client's call for a step: when it must be over, and what ends when the client gives up.
//
// Thread safety: all methods.
#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "session/step.h"

namespace weir {

class ClientCall {
 public:
  explicit ClientCall(absl::Time deadline) : deadline_(deadline) {}

  absl::Time deadline() const { return deadline_; }

  // The client has cancelled, run out of time, or gone: its step ends.
  void GiveUp() {
    std::shared_ptr<Step> step;
    {
      absl::MutexLock lock(&mutex_);
      is_given_up_ = true;
      step = step_;
    }
    if (step != nullptr) step->Cancel(GivenUp());
  }

  // What runs for the call.
  void SetStep(std::shared_ptr<Step> step) {
    {
      absl::MutexLock lock(&mutex_);
      step_ = step;
      if (!is_given_up_) return;
    }
    step->Cancel(GivenUp());
  }

  bool is_given_up() const {
    absl::MutexLock lock(&mutex_);
    return is_given_up_;
  }

  // Read only by a client whose connection broke, when it repeats the request: it may begin a session anew.
  static absl::Status GivenUp() {
    return absl::AbortedError("the step was ended because the connection of its client broke");
  }

 private:
  const absl::Time deadline_;
  mutable absl::Mutex mutex_;
  bool is_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Step> step_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
