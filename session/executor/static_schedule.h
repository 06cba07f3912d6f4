// Runs a program whose kernels are all synchronous: one after another on the calling thread, in the compiled
// order.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/kernel_context.h"
#include "session/executor/activation.h"
#include "session/executor/overlap.h"
#include "session/executor/program.h"
#include "session/executor/program_trace.h"

namespace weir {

class RecordedRuns;

// Sets the result slots of the frame and empties all others but constants'; after an error, every one but
// constants'. Returns the first kernel's error, annotated; the cancellation's reason; or DeadlineExceeded,
// naming the next node. The calling thread must have the frame to itself. Precondition: program.is_static(),
// argument slots are set.
absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline);

// The same, in a step that may be one of those that measure the program's kernels.
absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline, Overlap& overlap);

// The same, in a step that is traced.
absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline, ProgramTrace& trace);

// The same as an Activation, for a program that is one of several of a step.
class StaticActivation final : public Activation {
 public:
  // `recorded`: the program's, borrowed; null where it is not recorded.
  StaticActivation(const Program& program, ProgramFrame& frame, const StepContext& step, ProgramCost& cost,
                   Overlap& overlap, RecordedRuns* recorded = nullptr)
      : Activation(program, frame, step, cost), overlap_(overlap), recorded_(recorded) {}
  bool Run(int64_t budget) override;

 private:
  absl::Status RunProgram();

  Overlap& overlap_;
  RecordedRuns* const recorded_;
};

// Whether instruction `next`, the `count`-th of the step, should still run: the cancellation's reason, or
// (looked at now and then only) DeadlineExceeded.
absl::Status CheckStillWanted(const Program& program, int32_t next, int64_t count, const StepContext& step,
                              absl::Time deadline);

// Empties every slot but constants'.
void ClearFrame(const Program& program, ProgramFrame& frame);

}  // namespace weir
