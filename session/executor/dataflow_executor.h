// Runs a program some of whose kernels wait (receives, queues), or some of whose nodes run or do not run,
// once or often (v1 control flow): an instruction runs when its predecessors have.
//
// At any time at most one thread runs instructions. A kernel that finishes elsewhere posts an event; the
// thread that runs the program takes it when nothing is ready, and if there is none, the post hands the
// program to a thread. No instruction runs on the stack of the kernel that woke it. Kernels use several cores
// inside (ThreadPool::ParallelFor).
//
// Where it pays (overlap.h), long kernels that are ready together are handed to the threads, each as a
// Runnable of its own that posts an event like any other. The thread that hands them over takes back those
// that nobody has begun. State is touched in the order of the instructions all the same (state_order.h).
//
// Deadness: the output of a Switch that was not chosen is dead, and so is what a dead instruction would have
// given. An instruction with a dead input, or after a dead one, is complete without running; only Merge takes
// a live input among dead ones. A loop's iteration is over when all its instructions, and the loops inside,
// are; the next one begins if a NextIteration was alive, else the Exits hand on what they got, or deadness.
//
// Progress: as long as every asynchronous kernel calls back and every blocking one returns, `done` is called.
// After the first error (or a cancellation) no further kernel starts; `done` comes when those already started
// have called back. Not promised: an order between instructions that do not depend on one another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kernel_context.h"
#include "session/executor/activation.h"
#include "session/executor/inbox.h"
#include "session/executor/overlap.h"
#include "session/executor/program.h"

namespace weir {

class DataflowExecutor final : public Activation {
 public:
  // `overlap` is the program's, and borrowed. `on_idle` runs whenever nothing is ready but kernels are still
  // running elsewhere, and after every few iterations of loops: it should send what has been collected.
  // Another possible error of a step: InvalidArgument for a fetch that is dead.
  DataflowExecutor(const Program& program, ProgramFrame& frame, const StepContext& step, ProgramCost& cost,
                   Overlap& overlap, std::function<void()> on_idle);

  bool Run(int64_t budget) override;
  void Reset() override;
  std::vector<std::string> AwaitedNodes() const override;

 private:
  using ReadyQueue = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<int32_t>>;

  // What the running thread knows of an instruction of this step, or of the loop's iteration.
  struct InstructionState {
    int32_t pending = 0;
    bool is_dead = false;
    // Of a Merge.
    bool is_ready = false;
    int32_t arrivals_left = 0;
    int32_t taken = -1;  // which input
    // Of an Exit: in some iteration it was alive.
    bool has_value = false;
  };
  // Of an asynchronous kernel, or one that was handed over.
  struct Wait {
    bool is_under_way = false;
    bool was_left_out = false;  // the step was cancelled before it began
    std::optional<KernelContext> context;
    Event event;
  };

  // A kernel on its way to another thread.
  class HandedOver final : public Runnable {
   public:
    HandedOver(DataflowExecutor& executor, int32_t index) : executor_(executor), index_(index) {}
    bool Run(int64_t budget) override;
    bool is_heavy() const override { return true; }

   private:
    DataflowExecutor& executor_;
    const int32_t index_;
  };

  enum class Pause { kOutOfBudget, kParked, kOver };
  Pause RunUntilPause(int64_t budget);
  void BeginStep();
  bool has_ready() const { return !ready_.empty() || !held_.empty(); }
  void RunNext();
  int32_t TakeNext();
  // Makes an instruction ready to run elsewhere. Null when it is dead, and complete already.
  Wait* BeginWait(int32_t index);
  void HandOver(int32_t index);
  bool TakeEvents();  // false: parked, and no longer this thread's
  void Finish();
  void Execute(int32_t index);
  void ExecuteAsync(int32_t index);
  void StartBlocking(int32_t index);
  void OnAsyncDone(int32_t index, absl::Status status);
  // True when the program was parked and is the caller's now.
  bool Post(int32_t index, absl::Status status);
  absl::Status Compute(int32_t index, KernelContext& context);
  // On a thread that does not have the program: only a trace hears of it.
  absl::Status ComputeElsewhere(int32_t index);
  bool HasDeadInput(const Instruction& instruction) const;
  absl::Status RunFlow(int32_t index);
  absl::Status RunSwitch(const Instruction& instruction);
  absl::Status RunMerge(int32_t index);
  void Fail(int32_t index, const absl::Status& status);
  void Complete(int32_t index, const absl::Status& status);
  void MarkOutputs(const Instruction& instruction, bool is_dead);
  void TellSuccessors(int32_t index);
  void Arrive(int32_t merge, int32_t from);
  void MarkReady(int32_t merge);
  void CountDone(int32_t loop);
  void EndIteration(int32_t loop);
  void BeginNextIteration(int32_t loop);
  void LeaveLoop(int32_t loop);
  void Arm(int32_t index, bool is_first_iteration);
  void ArmLoop(int32_t loop);
  void EmptySlot(int32_t slot);
  void ReleaseInputs(const Instruction& instruction);
  absl::Status CheckResults() const;
  absl::Status Stuck() const;
  KernelContext MakeContext(const Instruction& instruction);

  int32_t& parts_left(int32_t loop) { return parts_left_[loop + 1]; }  // kNoLoop + 1 == 0

  Overlap& overlap_;
  const std::function<void()> on_idle_;

  // Of the running thread; handed over through inbox_.
  std::vector<InstructionState> states_;
  std::vector<int32_t> parts_left_;  // of the step, then of each loop's iteration
  std::vector<uint8_t> dead_slots_;
  bool any_dead_ = false;  // whether dead_slots_ need to be looked at
  std::vector<int32_t> readers_left_;
  std::unique_ptr<bool[]> last_use_;  // what is the last use depends on the order of this step
  std::vector<Wait> waits_;
  ReadyQueue ready_;
  int num_waiting_ = 0;  // asynchronous kernels started and not called back
  int64_t num_run_ = 0;
  int64_t num_iterations_ = 0;  // of all loops, but their first ones
  absl::Status status_;
  // Of a step that measures or overlaps.
  bool has_begun_ = false;
  bool overlaps_ = false;
  std::unique_ptr<StepTimes> times_;
  int64_t began_ = 0;
  std::vector<int32_t> held_;                             // heavy and ready, while there is only one
  int num_handed_over_ = 0;                               // and not called back
  std::vector<std::unique_ptr<HandedOver>> handed_over_;  // by instruction, made when needed

  int64_t nanoseconds_ = 0;  // computed in this step

  Inbox inbox_;
};

}  // namespace weir
