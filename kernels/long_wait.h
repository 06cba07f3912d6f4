// Words for people while something waits.
//
// Who looks at a program that stands still must learn, after kSilence at the latest and then again and again,
// what it waits for, since when, and how long still.
//
// Not thread-safe: one object for one wait.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/environment.h"

namespace weir {

class LongWait {
 public:
  static constexpr absl::Duration kSilence = absl::Seconds(10);

  // A wait that begins now and ends at `deadline`, or `begin` and `deadline` by the environment's Now().
  explicit LongWait(const Environment& environment, absl::Time deadline = absl::InfiniteFuture())
      : LongWait(environment, environment.Now(), deadline) {}
  LongWait(const Environment& environment, absl::Time begin, absl::Time deadline)
      : environment_(environment), begin_(begin), deadline_(deadline), next_word_(begin + kSilence) {}

  // Something has happened: what is waited for now began at `begin`.
  void Restart(absl::Time begin) {
    begin_ = begin;
    next_word_ = begin + kSilence;
  }
  absl::Time begin() const { return begin_; }
  // When the next word is due.
  absl::Time next_word() const { return next_word_; }
  bool is_due(absl::Duration soon = absl::ZeroDuration()) const {
    return environment_.Now() + soon >= next_word_;
  }
  // Prints "weir: <what> (for 10s, 1m50s left)" if the next word is due within `soon`, the time until this is
  // called again: so that it comes early and not late. Returns whether it did.
  bool Say(absl::FunctionRef<std::string()> what, absl::Duration soon = absl::ZeroDuration());

 private:
  const Environment& environment_;
  absl::Time begin_;
  const absl::Time deadline_;
  absl::Time next_word_;
};

// Environment::Await, which says what it waits for. `what` is called with the mutex held; the words are
// printed without it.
bool AwaitAloud(Environment& environment, absl::Mutex& mutex, const absl::Condition& condition,
                absl::FunctionRef<std::string()> what, absl::Time deadline = absl::InfiniteFuture())
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

}  // namespace weir
