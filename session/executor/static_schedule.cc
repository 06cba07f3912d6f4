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

void ClearFrame(const Program& program, ProgramFrame& frame) {
  for (int slot = 0; slot < program.num_slots(); ++slot) frame.slots[slot] = Tensor();
  for (const auto& [slot, tensor] : program.constants()) frame.slots[slot] = tensor;
}

namespace {

// `times`: of a step that measures.
template <bool kMeasures>
absl::Status RunLine(const Program& program, ProgramFrame& frame, const StepContext& step,
                     absl::Time deadline, [[maybe_unused]] StepTimes* times) {
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
    if constexpr (kMeasures) times->Begin();
    absl::Status status = at.kernel->Compute(context);
    if constexpr (kMeasures) times->End(static_cast<int32_t>(i));
    if (!status.ok()) {
      ClearFrame(program, frame);
      return program.Annotate(i, status);
    }
    const int32_t* clear = program.clears() + at.first_clear;
    for (int k = 0; k < at.num_clears; ++k) slots[clear[k]] = Tensor();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline) {
  return RunLine<false>(program, frame, step, deadline, nullptr);
}

absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline, Overlap& overlap) {
  std::unique_ptr<StepTimes> times = overlap.is_undecided() ? overlap.BeginStep() : nullptr;
  if (times == nullptr) return RunLine<false>(program, frame, step, deadline, nullptr);
  absl::Status status = RunLine<true>(program, frame, step, deadline, times.get());
  overlap.EndStep(std::move(times), status.ok());
  return status;
}

bool StaticActivation::Run(int64_t) {
  const int64_t begin = absl::GetCurrentTimeNanos();
  const absl::Status status = RunStaticSchedule(program_, frame_, step_, deadline_, overlap_);
  cost_.Add(absl::GetCurrentTimeNanos() - begin);
  CallDone(status);
  return false;
}

}  // namespace weir
