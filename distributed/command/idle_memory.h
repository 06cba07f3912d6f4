// Gives the system what a server has freed, once it has nothing to do.
//
// A process keeps what it has freed, for its next step wants the same sizes again. After a feed of gigabytes,
// or many graphs, that nobody sends again, a server would hold their memory for as long as it lives.
//
// Linux only: sizes and times are those of getrusage and /proc/self/statm. Thread safety: none; the thread is
// its own.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/environment.h"

namespace weir {

class IdleMemory {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(10);
  static constexpr int64_t kWorthwhileBytes = int64_t{256} << 20;
  static constexpr double kBusyShare = 0.05;  // of one core, between two looks
  static constexpr absl::Duration kWork =
      absl::Milliseconds(100);  // heartbeats take a thousandth of the time

  explicit IdleMemory(Environment& environment);
  // Joins the thread.
  ~IdleMemory();

  // Looks every kInterval from now on, on a thread of its own. ResourceExhausted when the system gives none.
  absl::Status Start();

  // Gives memory back where the process was idle since the last look, has computed for kWork since it last
  // did so, and takes kWorthwhileBytes. Returns whether it did.
  bool Look();

 private:
  void LookUntilTheEnd();

  Environment& environment_;
  absl::Time last_look_;
  absl::Duration last_cpu_time_;
  absl::Duration cpu_time_at_release_;

  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<StartedThread> thread_;
};

}  // namespace weir
