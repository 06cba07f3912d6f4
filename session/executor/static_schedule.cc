#include "session/executor/static_schedule.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/process_clock.h"
#include "session/executor/recorded_runs.h"

namespace weir {
namespace {

constexpr int kInstructionsPerClockCheck = 64;

}  // namespace

absl::Status CheckStillWanted(const Program& program, int32_t next, int64_t count, const StepContext& step,
                              absl::Time deadline) {
  if (step.cancellation->is_cancelled()) return step.cancellation->reason();
  if (count % kInstructionsPerClockCheck != 0 || deadline == absl::InfiniteFuture()) return absl::OkStatus();
  if (ProcessNow() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the step's deadline passed before '", program.node_name(next), "' could run"));
}

void ClearFrame(const Program& program, ProgramFrame& frame) {
  for (int slot = 0; slot < program.num_slots(); ++slot) frame.slots[slot] = Tensor();
  for (const auto& [slot, tensor] : program.constants()) frame.slots[slot] = tensor;
}

namespace {

// `recorder`: what hears of each kernel; of most steps nothing, which costs nothing.
struct NoRecorder {};

template <typename Recorder>
absl::Status RunLine(const Program& program, ProgramFrame& frame, const StepContext& step,
                     absl::Time deadline, [[maybe_unused]] Recorder& recorder) {
  constexpr bool kMeasures = std::is_same_v<Recorder, StepTimes>;
  constexpr bool kTraces = std::is_same_v<Recorder, ProgramTrace>;
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
                          program.output_types() + at.first_type, at.num_outputs, program.output_kinds(at),
                          at.own_kind);
    if constexpr (kMeasures) recorder.Begin();
    if constexpr (kTraces) recorder.Begin(static_cast<int32_t>(i));
    absl::Status status = ComputeOnce(at, context, frame.updates);
    if constexpr (kMeasures || kTraces) recorder.End(static_cast<int32_t>(i));
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
  NoRecorder none;
  return RunLine(program, frame, step, deadline, none);
}

absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline, ProgramTrace& trace) {
  return RunLine(program, frame, step, deadline, trace);
}

absl::Status RunStaticSchedule(const Program& program, ProgramFrame& frame, const StepContext& step,
                               absl::Time deadline, Overlap& overlap) {
  std::unique_ptr<StepTimes> times = overlap.is_undecided() ? overlap.BeginStep() : nullptr;
  if (times == nullptr) return RunStaticSchedule(program, frame, step, deadline);
  absl::Status status = RunLine(program, frame, step, deadline, *times);
  overlap.EndStep(std::move(times), status.ok());
  return status;
}

absl::Status StaticActivation::RunProgram() {
  if (trace() != nullptr) return RunStaticSchedule(program_, frame_, step_, deadline_, *trace());
  if (recorded_ != nullptr) return recorded_->Run(frame_, step_, deadline_);
  return RunStaticSchedule(program_, frame_, step_, deadline_, overlap_);
}

bool StaticActivation::Run(int64_t) {
  const int64_t begin = absl::GetCurrentTimeNanos();
  const absl::Status status = RunProgram();
  cost_.Add(absl::GetCurrentTimeNanos() - begin);
  CallDone(status);
  return false;
}

}  // namespace weir
