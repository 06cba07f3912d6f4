// A program in one step: what the threads run, park and take up again.
//
// A subclass per way to run a program: StaticActivation (static_schedule.h), DataflowExecutor. One object per
// (program, step), reused by later steps. Start may be called from any thread; after it the threads have the
// object until `done` is called.
//
// Progress: `done` is called exactly once, by the thread that ran the last instruction, once every kernel
// that was started has finished. It follows a cancellation as soon as those have; a deadline must arrive as
// one (LocalWorker has a timer for each step that waits).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/kernel_context.h"
#include "kernels/threads.h"
#include "session/executor/program.h"
#include "session/executor/program_trace.h"

namespace weir {

// How long a step of a program has computed lately: decides whether to wake a thread for it.
class ProgramCost {
 public:
  // Assumed heavy until it has run.
  bool is_heavy() const { return nanoseconds_.load(std::memory_order_relaxed) >= kHeavyNanoseconds; }
  void Add(int64_t nanoseconds) {
    const int64_t before = nanoseconds_.load(std::memory_order_relaxed);
    const bool is_first = before == kUnknown;
    nanoseconds_.store(is_first ? nanoseconds : before + (nanoseconds - before) / 8,
                       std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kHeavyNanoseconds = 100'000;  // waking a thread takes 25 to 70 microseconds
  static constexpr int64_t kUnknown = INT64_MAX;
  std::atomic<int64_t> nanoseconds_{kUnknown};
};

class Activation : public Runnable {
 public:
  using Done = std::function<void(absl::Status)>;

  // All borrowed; `step` names the threads.
  Activation(const Program& program, ProgramFrame& frame, const StepContext& step, ProgramCost& cost)
      : program_(program), frame_(frame), step_(step), cost_(cost) {}

  // Precondition: argument slots are set; new, or Reset. No instruction begins after the deadline.
  // Errors: the first kernel's, annotated; the cancellation's reason; DeadlineExceeded, naming the next node.
  void Start(absl::Time deadline, Done done) {
    deadline_ = deadline;
    done_ = std::move(done);
    step_.threads->Compute(this);
  }

  // Before Start: the step's kernels are noted there, until the next call. Null for none.
  void set_trace(ProgramTrace* trace) { trace_ = trace; }

  // Readies the object for another step. Precondition: done has been called.
  virtual void Reset() {}

  // The nodes whose kernels have not called back. Precondition: no thread runs it.
  virtual std::vector<std::string> AwaitedNodes() const { return {}; }

  bool is_heavy() const final { return cost_.is_heavy(); }

 protected:
  // After this call nothing of the object may be touched.
  void CallDone(const absl::Status& status) {
    const Done done = std::exchange(done_, nullptr);
    done(status);
  }

  ProgramTrace* trace() const { return trace_; }

  const Program& program_;
  ProgramFrame& frame_;
  const StepContext& step_;
  ProgramCost& cost_;
  absl::Time deadline_;

 private:
  ProgramTrace* trace_ = nullptr;
  Done done_;
};

}  // namespace weir
