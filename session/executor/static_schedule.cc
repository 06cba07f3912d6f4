#include "session/executor/static_schedule.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace weir {
namespace {

constexpr int kInstructionsPerClockCheck = 64;

}  // namespace

absl::Status CheckStillWanted(const Program& program, int32_t next, int64_t count, const StepContext& step,
                              absl::Time deadline) {
  if (step.cancellation->is_cancelled()) return step.cancellation->reason();
  if (count % kInstructionsPerClockCheck != 0 || deadline == absl::InfiniteFuture()) return absl::OkStatus();
  if (absl::Now() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the step's deadline passed before '", program.node_name(next), "' could run"));
}

void ClearFrame(const Program& program, Frame& frame) {
  for (int slot = 0; slot < program.num_slots(); ++slot) frame.slots[slot] = Tensor();
  for (const auto& [slot, tensor] : program.constants()) frame.slots[slot] = tensor;
}

absl::Status RunStaticSchedule(const Program& program, Frame& frame, const StepContext& step,
                               absl::Time deadline) {
  Tensor* const slots = frame.slots.data();
  const absl::Span<const Instruction> instructions = program.instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& at = instructions[i];
    if (absl::Status wanted = CheckStillWanted(program, i, i, step, deadline); !wanted.ok()) {
      ClearFrame(program, frame);
      return wanted;
    }
    if (at.kernel == nullptr) continue;
    KernelContext context(step, program.device(), slots, program.input_slots() + at.first_input,
                          program.last_use() + at.first_input, at.num_inputs, at.first_output,
                          program.output_types() + at.first_type, at.num_outputs);
    if (absl::Status status = at.kernel->Compute(context); !status.ok()) {
      ClearFrame(program, frame);
      return program.Annotate(i, status);
    }
    const int32_t* clear = program.clears() + at.first_clear;
    for (int k = 0; k < at.num_clears; ++k) slots[clear[k]] = Tensor();
  }
  return absl::OkStatus();
}

bool StaticActivation::Run(int64_t) {
  const int64_t begin = absl::GetCurrentTimeNanos();
  const absl::Status status = RunStaticSchedule(program_, frame_, step_, deadline_);
  cost_.Add(absl::GetCurrentTimeNanos() - begin);
  CallDone(status);
  return false;
}

}  // namespace weir
