// Which task restored the variables here last.
//
// A task that restores and is only silent may still come back and end its restore, so a lease that has run
// out opens nothing: what others trained meanwhile would be set back. A later life of the task does.
//
// Thread safety: all methods.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/life.h"
#include "distributed/membership.h"
#include "distributed/task_name.h"

namespace weir {

class Restorer {
 public:
  void Set(const TaskName& task, Incarnation life) {
    absl::MutexLock lock(&mutex_);
    task_ = task;
    life_ = life;
  }

  // The life that restored, when a later one of its task is known: its restore is to be given up. Otherwise
  // 0.
  Incarnation LifeThatIsOver(const Membership& membership) const {
    absl::MutexLock lock(&mutex_);
    return life_ != 0 && membership.incarnation_of(task_) > life_ ? life_ : 0;
  }

 private:
  mutable absl::Mutex mutex_;
  TaskName task_ ABSL_GUARDED_BY(mutex_);
  Incarnation life_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nobody has restored
};

}  // namespace weir
