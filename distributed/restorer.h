// Which task restored the variables here last, and that restores begin in the order of a task's lives.
//
// A task that restores and is only silent may still come back and end its restore, so a lease that has run
// out opens nothing: what others trained meanwhile would be set back. A later life of the task does.
//
// A request to restore may have been let in, and be looked at when a later life of its task is known and has
// restored here: it begins nothing then, or what the later one has set would count as gone. Lives of
// different tasks say nothing about which of them restores later.
//
// Thread safety: all methods; one restore begins at a time.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "distributed/life.h"
#include "distributed/membership.h"
#include "distributed/task_name.h"

namespace weir {

class Restorer {
 public:
  // Calls `begin` unless a later life of the task is known; then an error for which IsSuperseded holds.
  absl::Status Begin(const Membership& membership, const TaskName& task, Incarnation life,
                     absl::FunctionRef<void()> begin) {
    absl::MutexLock no_other(&begin_mutex_);
    const Incarnation known = membership.incarnation_of(task);
    if (known > life) return membership.SupersededBy(task, life, known);
    {
      absl::MutexLock lock(&mutex_);
      task_ = task;
      life_ = life;
    }
    begin();
    return absl::OkStatus();
  }

  // The life that restored, when a later one of its task is known: its restore is to be given up. Otherwise
  // 0.
  Incarnation LifeThatIsOver(const Membership& membership) const {
    absl::MutexLock lock(&mutex_);
    return life_ != 0 && membership.incarnation_of(task_) > life_ ? life_ : 0;
  }

 private:
  absl::Mutex begin_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // while a restore begins
  mutable absl::Mutex mutex_;
  TaskName task_ ABSL_GUARDED_BY(mutex_);
  Incarnation life_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nobody has restored
};

}  // namespace weir
