// The copies of a step between the host and its devices that the step waits for in its end.
//
// Belongs to a step of a LocalWorker, and is reused with it. The end of a copy is taken note of on a thread
// of the steps, never on the device's that made it: the end of a step may begin another. Thread safety: all
// methods.
//
// Progress: as long as the devices end what they have begun.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/pending_work.h"
#include "kernels/threads.h"

namespace weir {

class StepCopies final : public PendingWork, public Runnable {
 public:
  // `hold` keeps the step from ending until `release` is called, with the first error of a copy.
  StepCopies(Threads& threads, std::function<void()> hold, std::function<void(const absl::Status&)> release)
      : threads_(threads), hold_(std::move(hold)), release_(std::move(release)) {}

  void Begin() override { hold_(); }
  void End(const absl::Status& status) override;

  bool Run(int64_t budget) override;
  bool is_heavy() const override { return false; }

 private:
  Threads& threads_;
  const std::function<void()> hold_;
  const std::function<void(const absl::Status&)> release_;
  absl::Mutex mutex_;
  int num_ended_ ABSL_GUARDED_BY(mutex_) = 0;  // and not released
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool is_given_ ABSL_GUARDED_BY(mutex_) = false;  // to the threads
};

}  // namespace weir
