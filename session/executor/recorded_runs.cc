#include "session/executor/recorded_runs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "kernels/variable.h"
#include "session/executor/state_order.h"
#include "session/executor/static_schedule.h"

namespace weir {
namespace {

using Part = RecordingPlan::Part;

// To launch fewer as one gains nothing.
constexpr int kFewestPieces = 2;

// A variable that the recorded work has the address of.
struct RecordedVariable {
  RefPtr<Variable> variable;
  const void* data = nullptr;
  Shape shape;
  bool is_updated = false;

  bool IsThere() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return variable->tensor.data() == data && variable->tensor.shape() == shape;
  }
};

// Holds their locks, taken in the order of VariableLocks. The analysis cannot follow a set of locks.
class LocksOfAll {
 public:
  explicit LocksOfAll(const std::vector<RecordedVariable>& sorted) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : variables_(sorted) {
    for (const RecordedVariable& variable : variables_) variable.variable->mutex.Lock();
  }
  ~LocksOfAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const RecordedVariable& variable : variables_) variable.variable->mutex.Unlock();
  }
  LocksOfAll(const LocksOfAll&) = delete;
  LocksOfAll& operator=(const LocksOfAll&) = delete;

  bool AreThere() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(variables_.begin(), variables_.end(),
                       [](const RecordedVariable& at)
                           ABSL_NO_THREAD_SAFETY_ANALYSIS { return at.IsThere(); });
  }
  // `all`: also those that are only read.
  bool AreExclusive(bool all) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(variables_.begin(), variables_.end(),
                       [all](const RecordedVariable& at) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                         return !(all || at.is_updated) || at.variable->tensor.has_exclusive_buffer();
                       });
  }

 private:
  const std::vector<RecordedVariable>& variables_;
};

}  // namespace

struct RecordedRuns::Recorded {
  struct Feed {
    int32_t argument = 0;  // slot
    Tensor staging;
  };
  std::vector<Feed> feeds;
  std::vector<int32_t> fetches;                     // instructions, in the order of recording->given()
  std::vector<std::pair<int32_t, Tensor>> results;  // by slot, on the host: of all steps the same
  std::vector<Tensor> constants;                    // in the device's memory, of this recording
  std::vector<RecordedVariable> variables;          // in the order of their addresses
  std::unique_ptr<Recording> recording;
};

struct RecordedRuns::Signature {
  std::vector<Shape> shapes;  // of the arguments
  std::unique_ptr<Recorded> recorded;
  int64_t num_launches = 0;
};

std::unique_ptr<RecordedRuns> RecordedRuns::Create(const Program& program) {
  if (program.recording_plan() == nullptr) return nullptr;
  auto* const device = dynamic_cast<Recordable*>(&program.device());
  if (device == nullptr) return nullptr;
  return std::unique_ptr<RecordedRuns>(new RecordedRuns(program, device->NewRecorder()));
}

RecordedRuns::RecordedRuns(const Program& program, std::unique_ptr<Recorder> recorder)
    : program_(program), is_set_otherwise_(program.num_slots(), false), recorder_(std::move(recorder)) {
  const std::vector<Part>& parts = program.recording_plan()->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Instruction& at = program.instructions()[i];
    if (at.update != 0) updates_.push_back(at.update);
    if (parts[i] == Part::kFetch) is_set_otherwise_[at.first_output] = true;
  }
  for (const auto& [slot, tensor] : program.constants()) is_set_otherwise_[slot] = true;
  for (const Program::Binding& argument : program.args()) {
    is_set_otherwise_[argument.slot] = true;
    const bool is_result =
        std::any_of(program.results().begin(), program.results().end(),
                    [&](const Program::Binding& result) { return result.slot == argument.slot; });
    if (!is_result) emptied_.push_back(argument.slot);
  }
}

RecordedRuns::~RecordedRuns() {
  absl::MutexLock lock(&mutex_);
  signatures_.clear();  // before the recorder
}

absl::Status RecordedRuns::Run(ProgramFrame& frame, const StepContext& step, absl::Time deadline) {
  std::optional<std::vector<Shape>> new_shapes;
  if (!has_given_up_.load(std::memory_order_relaxed)) {
    absl::MutexLock lock(&mutex_);
    WEIR_ASSIGN_OR_RETURN(const bool is_done, TryRecorded(frame, step, deadline));
    if (is_done) return absl::OkStatus();
    if (recorder_ != nullptr && Find(frame) == nullptr) new_shapes = ShapesOf(frame);
  }
  WEIR_RETURN_IF_ERROR(RunStaticSchedule(program_, frame, step, deadline));
  if (new_shapes.has_value()) {
    absl::MutexLock lock(&mutex_);
    AddSignature(*std::move(new_shapes));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordedRuns::TryRecorded(ProgramFrame& frame, const StepContext& step,
                                               absl::Time deadline) {
  Signature* const signature = Find(frame);
  if (signature == nullptr) return false;
  if (signature->recorded == nullptr && !Record(*signature, frame, step)) return false;
  return Launch(*signature, frame, step, deadline);
}

RecordedRuns::Signature* RecordedRuns::Find(const ProgramFrame& frame) {
  for (const std::unique_ptr<Signature>& signature : signatures_) {
    size_t i = 0;
    const auto has_shape = [&](const Program::Binding& argument) {
      return frame.slots[argument.slot].shape() == signature->shapes[i++];
    };
    if (std::all_of(program_.args().begin(), program_.args().end(), has_shape)) return signature.get();
  }
  return nullptr;
}

std::vector<Shape> RecordedRuns::ShapesOf(const ProgramFrame& frame) const {
  std::vector<Shape> shapes;
  for (const Program::Binding& argument : program_.args()) {
    shapes.push_back(frame.slots[argument.slot].shape());
  }
  return shapes;
}

void RecordedRuns::AddSignature(std::vector<Shape> shapes) {
  if (recorder_ == nullptr) return;
  for (const std::unique_ptr<Signature>& signature : signatures_) {
    if (signature->shapes == shapes) return;
  }
  if (signatures_.size() == kMostSignatures) {
    return GiveUp(absl::StrCat("what it is fed has more than ", kMostSignatures, " combinations of shapes"));
  }
  signatures_.push_back(std::make_unique<Signature>());
  signatures_.back()->shapes = std::move(shapes);
}

bool RecordedRuns::Record(Signature& signature, ProgramFrame& frame, const StepContext& step) {
  std::vector<Tensor> arguments;
  for (const Program::Binding& argument : program_.args()) arguments.push_back(frame.slots[argument.slot]);
  absl::StatusOr<std::unique_ptr<Recorded>> recorded = RecordProgram(frame, step);
  ClearFrame(program_, frame);
  for (size_t i = 0; i < arguments.size(); ++i)
    frame.slots[program_.args()[i].slot] = std::move(arguments[i]);
  if (absl::IsAborted(recorded.status())) {
    Drop(signature, "others read its variables while it is recorded");
    return false;
  }
  if (!recorded.ok()) {
    GiveUp(absl::StrCat("it could not be recorded: ", recorded.status().message()));
    return false;
  }
  if ((*recorded)->recording->num_pieces() < kFewestPieces) {
    recorded->reset();
    GiveUp("");
    return false;
  }
  signature.recorded = *std::move(recorded);
  signature.num_launches = 0;
  return true;
}

absl::StatusOr<std::unique_ptr<RecordedRuns::Recorded>> RecordedRuns::RecordProgram(ProgramFrame& frame,
                                                                                    const StepContext& step) {
  auto recorded = std::make_unique<Recorded>();
  const std::vector<Part>& parts = program_.recording_plan()->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != Part::kFeed) continue;
    const Instruction& at = program_.instructions()[i];
    const int32_t slot = program_.input_slots()[at.first_input];
    const Tensor& argument = frame.slots[slot];
    WEIR_ASSIGN_OR_RETURN(
        Tensor staging, Tensor::Allocate(argument.dtype(), argument.shape(), program_.device().allocator()));
    frame.slots[at.first_output] = staging;
    recorded->feeds.push_back({slot, std::move(staging)});
  }
  StepContext while_recording = step;
  WEIR_ASSIGN_OR_RETURN(while_recording.pending, recorder_->Begin());
  absl::StatusOr<std::vector<Tensor>> fetched = RecordKernels(frame, while_recording, *recorded);
  if (!fetched.ok()) {
    recorder_->GiveUp();
    return fetched.status();
  }
  WEIR_ASSIGN_OR_RETURN(recorded->recording, recorder_->End(*fetched));
  for (const Program::Binding& result : program_.results()) {
    if (is_set_otherwise_[result.slot]) continue;
    recorded->results.emplace_back(result.slot, frame.slots[result.slot]);
  }
  std::sort(recorded->variables.begin(), recorded->variables.end(),
            [](const RecordedVariable& a, const RecordedVariable& b) {
              return a.variable.get() < b.variable.get();
            });
  return recorded;
}

absl::StatusOr<std::vector<Tensor>> RecordedRuns::RecordKernels(ProgramFrame& frame, const StepContext& step,
                                                                Recorded& recorded) {
  std::vector<Tensor> fetched;
  const std::vector<Part>& parts = program_.recording_plan()->parts;
  for (int32_t i = 0; i < static_cast<int32_t>(parts.size()); ++i) {
    const Instruction& at = program_.instructions()[i];
    if (at.kernel == nullptr) continue;
    if (parts[i] == Part::kFetch) {
      // As in a run kernel by kernel, nobody gets its memory before the copy has been made.
      fetched.push_back(frame.slots[program_.input_slots()[at.first_input]]);
      recorded.fetches.push_back(i);
    } else if (parts[i] == Part::kRecorded) {
      WEIR_RETURN_IF_ERROR(RecordKernel(i, frame, step, recorded));
    }
    const int32_t* const clear = program_.clears() + at.first_clear;
    for (int k = 0; k < at.num_clears; ++k) frame.slots[clear[k]] = Tensor();
  }
  return fetched;
}

absl::Status RecordedRuns::RecordKernel(int32_t index, ProgramFrame& frame, const StepContext& step,
                                        Recorded& recorded) {
  const Instruction& at = program_.instructions()[index];
  WEIR_RETURN_IF_ERROR(NoteVariables(index, frame, recorded));
  KernelContext context = ContextOf(at, frame, step);
  const absl::Status status = at.kernel->Compute(context);
  if (!status.ok()) return program_.Annotate(index, status);
  if (program_.op_name(index) == kCopyToDeviceOp) {
    recorded.constants.push_back(frame.slots[at.first_output]);
  }
  // Nobody may have given one other memory meanwhile.
  return NoteVariables(index, frame, recorded);
}

absl::Status RecordedRuns::NoteVariables(int32_t index, const ProgramFrame& frame, Recorded& recorded) const {
  const Instruction& at = program_.instructions()[index];
  for (int k = 0; k < at.num_inputs; ++k) {
    const Tensor& input = frame.slots[program_.input_slots()[at.first_input + k]];
    if (input.dtype() != DType::kResource) continue;
    auto* const variable = input.num_elements() == 1
                               ? dynamic_cast<Variable*>(input.scalar<ResourceHandle>().resource.get())
                               : nullptr;
    if (variable == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", program_.node_name(index), "' works on something that is no variable"));
    }
    auto known = std::find_if(recorded.variables.begin(), recorded.variables.end(),
                              [&](const RecordedVariable& one) { return one.variable.get() == variable; });
    absl::MutexLock lock(&variable->mutex);
    if (known == recorded.variables.end()) {
      recorded.variables.push_back(
          {RefPtr<Variable>::Share(variable), variable->tensor.data(), variable->tensor.shape()});
      known = recorded.variables.end() - 1;
    }
    if (variable->tensor.data() != known->data || variable->tensor.shape() != known->shape) {
      return absl::AbortedError("a variable has got other memory");
    }
    known->is_updated |= !OnlyReadsVariable(program_.op_name(index));
  }
  return absl::OkStatus();
}

KernelContext RecordedRuns::ContextOf(const Instruction& at, ProgramFrame& frame,
                                      const StepContext& step) const {
  return KernelContext(step, program_.device(), frame.slots.data(), program_.input_slots() + at.first_input,
                       program_.last_use() + at.first_input, at.num_inputs, at.first_output,
                       program_.output_types() + at.first_type, at.num_outputs, program_.output_kinds(at),
                       at.own_kind);
}

absl::StatusOr<bool> RecordedRuns::Launch(Signature& signature, ProgramFrame& frame, const StepContext& step,
                                          absl::Time deadline) {
  Recorded& recorded = *signature.recorded;
  if (!recorded.recording->is_free()) return false;
  absl::Status status = CheckStillWanted(program_, 0, 0, step, deadline);
  if (status.ok()) status = recorded.recording->EarlierError();
  if (!status.ok()) {
    ClearFrame(program_, frame);
    return status;
  }
  // As long as nobody has looked: the ledger may refuse before.
  bool are_there = true, are_exclusive = true;
  absl::Status launched;
  const auto launch = [&]() -> absl::Status {
    const LocksOfAll locks(recorded.variables);
    are_there = locks.AreThere();
    are_exclusive = locks.AreExclusive(/*all=*/signature.num_launches == 0);
    if (!are_there || !are_exclusive)
      return absl::AbortedError("the variables are not as they were recorded");
    return launched = FeedAndLaunch(recorded, frame, step);
  };
  absl::StatusOr<bool> is_done = true;
  if (frame.updates != nullptr && !updates_.empty()) {
    is_done = frame.updates->ApplyAll(updates_, launch);
  } else if (status = launch(); !status.ok()) {
    is_done = status;
  }
  if (!are_there) {
    Drop(signature, "its variables get other memory again and again");
    return false;
  }
  if (!are_exclusive) {
    if (signature.num_launches == 0) Drop(signature, "others hold what its variables have");
    return false;
  }
  if (!launched.ok()) {
    GiveUp(absl::StrCat("it could not be launched: ", launched.message()));
    return false;
  }
  if (!is_done.ok()) ClearFrame(program_, frame);
  if (!is_done.ok() || !*is_done) return is_done;
  ++signature.num_launches;
  if (signature.num_launches >= kOfUse) num_wasted_ = 0;
  WEIR_RETURN_IF_ERROR(Fetch(recorded, frame, step));
  return true;
}

// An error is the device's: nothing has happened then.
absl::Status RecordedRuns::FeedAndLaunch(Recorded& recorded, const ProgramFrame& frame,
                                         const StepContext& step) {
  for (const Recorded::Feed& feed : recorded.feeds) {
    WEIR_RETURN_IF_ERROR(recorded.recording->Feed(frame.slots[feed.argument], feed.staging));
  }
  return recorded.recording->Launch(*step.pending);
}

absl::Status RecordedRuns::Fetch(const Recorded& recorded, ProgramFrame& frame, const StepContext& step) {
  for (const int32_t slot : emptied_) frame.slots[slot] = Tensor();
  for (size_t i = 0; i < recorded.fetches.size(); ++i) {
    const Instruction& at = program_.instructions()[recorded.fetches[i]];
    Tensor& source = frame.slots[program_.input_slots()[at.first_input]];
    source = recorded.recording->given()[i];
    KernelContext context = ContextOf(at, frame, step);
    const absl::Status status = at.kernel->Compute(context);
    source = Tensor();
    if (status.ok()) continue;
    ClearFrame(program_, frame);
    return program_.Annotate(recorded.fetches[i], status);
  }
  for (const auto& [slot, tensor] : recorded.results) frame.slots[slot] = tensor;
  return absl::OkStatus();
}

void RecordedRuns::Drop(Signature& signature, const char* why) {
  signature.recorded = nullptr;
  if (signature.num_launches >= kOfUse) num_wasted_ = 0;
  if (std::exchange(signature.num_launches, 0) < kOfUse && ++num_wasted_ >= kMostWasted) GiveUp(why);
}

void RecordedRuns::GiveUp(const std::string& why) {
  has_given_up_.store(true, std::memory_order_relaxed);
  signatures_.clear();
  recorder_ = nullptr;
  if (why.empty()) return;
  const int last = static_cast<int>(program_.instructions().size()) - 1;
  PrintNotice(absl::StrCat("steps with '", program_.node_name(last), "' on ",
                           program_.device().name().ToString(),
                           " launch each kernel by itself from now on: ", why));
}

}  // namespace weir
