// Threads of the operating system. One that computes and the timers' are there from the beginning, so that
// work never has none; the others are started when they are first needed. Where the system gives no further
// thread, those that are there do the work. All end with this object, which waits for what was given to it
// except timers that have not rung.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/real_timers.h"
#include "kernels/threads.h"

namespace weir {

class RealThreads final : public Threads {
 public:
  struct Options {
    int num_threads = 1;            // that compute, besides those of callers
    int max_blocked_threads = 256;  // that may wait
  };

  // ResourceExhausted when the system gives no thread.
  static absl::StatusOr<std::unique_ptr<RealThreads>> Create(const Options& options);
  ~RealThreads() override;

  void Compute(Runnable* work) override;
  // ResourceExhausted also when the system gives no thread.
  absl::Status Block(absl::AnyInvocable<void()> work) override;
  TimerId At(absl::Time when, absl::AnyInvocable<void()> work) override {
    return timers_.At(when, std::move(work));
  }
  bool Forget(TimerId id) override { return timers_.Forget(id); }

  // True when `work` was given to Compute and had not begun: the caller has it now.
  bool TakeBack(Runnable* work);
  // For a thread that has had its turn. True: its works are behind those that wait now. False: it is one of
  // these threads, and nobody waits.
  bool TakeOver(bool is_own_thread, std::deque<Runnable*>* works);

 private:
  explicit RealThreads(const Options& options) : options_(options) {}
  absl::Status StartWorkThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(work_mutex_);
  void StartWorkThreadsAsNeeded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(work_mutex_);
  void RunWork();
  Runnable* NextWork();  // null at the end
  void RunBlocked();

  const Options options_;

  absl::Mutex work_mutex_;
  std::deque<Runnable*> work_ ABSL_GUARDED_BY(work_mutex_);
  int num_idle_ ABSL_GUARDED_BY(work_mutex_) = 0;
  bool work_ends_ ABSL_GUARDED_BY(work_mutex_) = false;
  std::vector<std::thread> work_threads_;  // grow under work_mutex_

  absl::Mutex blocked_mutex_;
  std::deque<absl::AnyInvocable<void()>> blocked_ ABSL_GUARDED_BY(blocked_mutex_);
  int num_blocked_ ABSL_GUARDED_BY(blocked_mutex_) = 0;  // works that are not over
  bool blocked_ends_ ABSL_GUARDED_BY(blocked_mutex_) = false;
  std::vector<std::thread> blocked_threads_;  // grow under blocked_mutex_

  RealTimers timers_;
};

}  // namespace weir
