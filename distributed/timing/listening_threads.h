// Threads that take events from one source, of which one at least is always free for the next event.
//
// A handler that may compute for long does that in Compute: before it begins, its thread gives its place to
// another one. That wakes nobody: the others wait for events already, and only when the last of them is about
// to compute a new thread is started. The number of threads is bounded; work beyond it waits for a thread
// that has finished, so a source that is listened to by all its threads at once cannot be silenced by work,
// however long it takes.
//
// Threads above num_threads stay for a while (a burst is seldom alone) and leave when the burst is over.
// Where the system gives fewer than num_threads, those do it all. Thread safety: Compute and MayLeave on the
// threads themselves only.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace weir {

class ListeningThreads {
 public:
  using Work = absl::AnyInvocable<void()>;

  struct Options {
    int num_threads = 1;
    int max_threads = 1;  // all but one may compute; a single thread does so too, and is deaf meanwhile
  };

  // `listen` is called once on each thread, with this object: it takes events and handles them, until the
  // source has ended or MayLeave() says that the thread is no longer needed.
  // Nobody listens when status() is an error.
  ListeningThreads(const Options& options, std::function<void(ListeningThreads&)> listen);
  // Stop().
  ~ListeningThreads();

  // ResourceExhausted when the system has given no thread at all to the constructor.
  const absl::Status& status() const { return status_; }

  // The source must have ended. Drops work that has not begun, waits for the rest and for the threads, which
  // may call Compute and MayLeave until they end. Not from one of them.
  void Stop();

  // Runs `work` at once on this thread, or on another one later when too many compute already. Works must not
  // wait for one another.
  void Compute(Work work);

  // True when there are threads enough without this one, which must then leave `listen`.
  bool MayLeave();

  int num_threads() const;

 private:
  absl::Status StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryStartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the work is to be run now; otherwise it was put aside.
  bool Leave(Work* work);
  // Gives the next work that was put aside, or this thread back to the listening ones.
  bool Return(Work* next);

  const Options options_;
  const std::function<void(ListeningThreads&)> listen_;
  absl::Status status_;  // of the constructor
  mutable absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int num_listening_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Work> put_aside_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> left_ ABSL_GUARDED_BY(mutex_);  // at their end, to be joined
};

}  // namespace weir
