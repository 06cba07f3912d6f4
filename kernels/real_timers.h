// Timers on a thread of the operating system, by ProcessNow. It is started when it is first needed, if not by
// Start before. Where the system gives none, it is asked again for every further timer, and none rings until
// then.
#pragma once

#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/process_clock.h"
#include "kernels/timers.h"

namespace weir {

class RealTimers final : public Timers {
 public:
  RealTimers() = default;
  ~RealTimers() override { Stop(); }

  TimerId At(absl::Time when, absl::AnyInvocable<void()> work) override;
  bool Forget(TimerId id) override;

  // Starts the thread. ResourceExhausted when the system gives none.
  absl::Status Start();
  // Waits for the work that runs; none begins any more. Not from a timer.
  void Stop();

 private:
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  absl::Mutex mutex_;
  ProcessCondVar changed_;
  std::map<std::pair<absl::Time, TimerId>, absl::AnyInvocable<void()>> timers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<TimerId, absl::Time> times_ ABSL_GUARDED_BY(mutex_);
  TimerId next_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started under mutex_
};

}  // namespace weir
