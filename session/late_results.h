// Hands the late results of a partial run to the caller, on a thread of the steps: never inside the kernel
// that computed them.
//
// Belongs to a step of a LocalWorker, and is reused with it. Thread safety: Run is called by the threads,
// Start by the thread that starts the step.
//
// Progress: a result is handed on as soon as a thread is free. The step does not end before that.
#pragma once

#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/tensor.h"
#include "kernels/threads.h"
#include "session/rendezvous.h"
#include "session/worker.h"

namespace weir {

class LateResults final : public Runnable {
 public:
  // `hold` keeps the step from ending until `release` is called.
  LateResults(Threads& threads, std::function<void()> hold, std::function<void()> release)
      : threads_(threads), hold_(std::move(hold)), release_(std::move(release)) {}

  // Waits for edges [first_edge, first_edge + count), for `call`. Both live until the step ends.
  void Start(Rendezvous& rendezvous, int first_edge, int count, const RunPartitionCall& call);

  bool Run(int64_t budget) override;
  bool is_heavy() const override { return false; }

 private:
  struct Result {
    int index;
    Tensor tensor;
    bool is_dead;
  };
  void Add(Result result);

  Threads& threads_;
  const std::function<void()> hold_;
  const std::function<void()> release_;
  const RunPartitionCall* call_ = nullptr;
  absl::Mutex mutex_;
  std::vector<Result> results_ ABSL_GUARDED_BY(mutex_);  // not handed on yet
  bool is_given_ ABSL_GUARDED_BY(mutex_) = false;        // to the threads
};

}  // namespace weir
