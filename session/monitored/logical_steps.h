// The numbers of a MonitoredSession's steps, which they keep when they are tried again
// (session/executor/logical_step.h).
//
// Thread safety: all methods; a Call belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "session/executor/logical_step.h"

namespace weir {

class LogicalSteps {
 public:
  // `writer` is random. 0: steps are never tried again, and have no numbers.
  explicit LogicalSteps(uint64_t writer) : writer_(writer) {}

  // What may be tried again as a whole, with one step or several.
  class Call {
   public:
    explicit Call(LogicalSteps& steps) : steps_(steps) {}
    ~Call() { Settle(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // From here on Next gives the same numbers again.
    void BeginAttempt() { num_begun_ = 0; }
    LogicalStep Next();
    // It will not be tried again. Once more: does nothing.
    void Settle();

   private:
    LogicalSteps& steps_;
    std::vector<int64_t> numbers_;
    size_t num_begun_ = 0;  // in this attempt
  };

  // The oldest step that may be tried again; the next one if there is none. Without a writer: they have no
  // numbers.
  LogicalStep Oldest() const;
  // The one that begins next, unless it is an attempt of an earlier one.
  LogicalStep Next() const;

 private:
  const uint64_t writer_;
  mutable absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<int64_t> unsettled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
