// Runs a program some of whose kernels wait (receives, queues): an instruction runs when its predecessors have.
//
// One object per (program, step). At any time at most one thread runs instructions; a thread on which an asynchronous
// kernel finishes takes over when nobody runs, else leaves a note for the one that does. Kernels use several cores
// inside (ThreadPool::ParallelFor).
//
// Progress: as long as every asynchronous kernel calls back, `done` is called, exactly once, on the thread that finished
// the last instruction. After the first error (or a cancellation) no further kernel starts; `done` comes when those
// already started have called back. Not promised: an order between instructions that do not depend on one another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/kernel_context.h"
#include "session/executor/program.h"

namespace weir {

class DataflowExecutor {
 public:
  using Done = std::function<void(absl::Status)>;

  // All borrowed until `done` has been called. `on_idle` runs whenever nothing is ready but kernels are awaited: sends
  // collected so far should leave now.
  DataflowExecutor(const Program& program, Frame& frame, const StepContext& step, std::function<void()> on_idle);

  // Call once per Reset. Precondition: argument slots are set.
  void Start(Done done);

  // Readies the object for another step. Precondition: done has been called.
  void Reset();

 private:
  using ReadyQueue = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<int32_t>>;

  // Runs instructions until none is ready. Only the thread that set running_ calls it.
  void RunReady();
  bool TakeFinished();  // moves notes into ready_; false when this thread has stopped being the runner
  void Execute(int32_t index);
  void ExecuteAsync(int32_t index);
  void OnAsyncDone(int32_t index, absl::Status status);
  void Complete(int32_t index, const absl::Status& status);
  void ReleaseInputs(const Instruction& instruction);
  KernelContext MakeContext(const Instruction& instruction);

  const Program& program_;
  Frame& frame_;
  const StepContext& step_;
  const std::function<void()> on_idle_;
  Done done_;

  // Of the running thread; handed over through mutex_.
  std::vector<int32_t> pending_;
  std::vector<int32_t> readers_left_;
  std::unique_ptr<bool[]> last_use_;  // what is the last use depends on the order of this step
  std::vector<std::optional<KernelContext>> contexts_;
  ReadyQueue ready_;
  int num_left_ = 0;     // instructions not completed
  int num_waiting_ = 0;  // asynchronous kernels started and not called back
  absl::Status status_;

  absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<int32_t, absl::Status>> finished_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
