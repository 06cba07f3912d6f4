#include "session/executor/dataflow_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "session/executor/static_schedule.h"

namespace weir {

using Kind = Instruction::Kind;

namespace {
constexpr int64_t kIterationsBetweenFlushes = kLoopLead / 4;

absl::Status NothingWillCome(const std::string& waiting) {
  return absl::InvalidArgumentError(
      absl::StrCat("the step cannot go on: nothing that these nodes wait for will come: ", waiting));
}
}  // namespace

DataflowExecutor::DataflowExecutor(const Program& program, ProgramFrame& frame, const StepContext& step,
                                   ProgramCost& cost, Overlap& overlap, std::function<void()> on_idle)
    : Activation(program, frame, step, cost),
      overlap_(overlap),
      on_idle_(std::move(on_idle)),
      states_(program.instructions().size()),
      parts_left_(program.loops().size() + 1),
      waits_(program.instructions().size()) {
  size_t num_inputs = 0;
  for (const Instruction& at : program.instructions()) num_inputs += at.num_inputs;
  last_use_ = std::make_unique<bool[]>(num_inputs);
  Reset();
}

void DataflowExecutor::Reset() {
  ready_ = ReadyQueue();
  dead_slots_.assign(program_.num_slots(), false);
  any_dead_ = false;
  readers_left_.assign(program_.slot_readers().begin(), program_.slot_readers().end());
  parts_left(kNoLoop) = program_.num_parts();
  const auto instructions = program_.instructions();
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].loop == kNoLoop) Arm(i, /*is_first_iteration=*/true);
  }
  for (size_t loop = 0; loop < program_.loops().size(); ++loop) ArmLoop(loop);
  num_waiting_ = 0;
  num_run_ = 0;
  num_iterations_ = 0;
  nanoseconds_ = 0;
  status_ = absl::OkStatus();
  has_begun_ = false;
  overlaps_ = false;
  held_.clear();
  num_handed_over_ = 0;
}

void DataflowExecutor::BeginStep() {
  has_begun_ = true;
  if (overlap_.is_undecided() && trace() == nullptr) times_ = overlap_.BeginStep();
  overlaps_ = overlap_.overlaps();
  if (!overlaps_) return;
  began_ = absl::GetCurrentTimeNanos();
  handed_over_.resize(program_.instructions().size());
}

bool DataflowExecutor::Run(int64_t budget) {
  if (!has_begun_) BeginStep();
  const int64_t begin = absl::GetCurrentTimeNanos();
  nanoseconds_ -= begin;
  return RunUntilPause(budget) == Pause::kOutOfBudget;
}

DataflowExecutor::Pause DataflowExecutor::RunUntilPause(int64_t budget) {
  do {
    for (; has_ready() && status_.ok(); --budget) {
      if (budget <= 0) {
        nanoseconds_ += absl::GetCurrentTimeNanos();
        return Pause::kOutOfBudget;
      }
      RunNext();
    }
    if (num_waiting_ == 0) {
      Finish();
      return Pause::kOver;
    }
    on_idle_();
  } while (TakeEvents());
  return Pause::kParked;
}

void DataflowExecutor::RunNext() {
  const int32_t index = TakeNext();
  if (index < 0) return;
  status_ = CheckStillWanted(program_, index, num_run_++, step_, deadline_);
  if (!status_.ok()) return step_.cancellation->Cancel(status_);
  if (program_.instructions()[index].may_wait()) {
    ExecuteAsync(index);
  } else {
    Execute(index);
  }
}

// The next instruction for this thread: short ones first, so that others get what they wait for. When several
// long ones are ready, all of them go to the threads. So this thread is never busy with a long one while
// another has ended and the program could go on. Negative: long ones have just been handed over.
int32_t DataflowExecutor::TakeNext() {
  if (ready_.empty()) {
    const int32_t alone = held_.back();
    held_.pop_back();
    return alone;
  }
  const int32_t index = ready_.top();
  ready_.pop();
  if (!overlaps_ || !overlap_.is_heavy(index)) return index;
  held_.push_back(index);
  if (static_cast<int>(held_.size()) + num_handed_over_ >= 2) {
    for (const int32_t held : std::exchange(held_, {})) HandOver(held);
  }
  return -1;
}

// All instructions are complete or will never start: nobody else touches this object now.
void DataflowExecutor::Finish() {
  if (status_.ok() && parts_left(kNoLoop) != 0) status_ = Stuck();
  if (status_.ok()) status_ = CheckResults();
  if (!status_.ok()) ClearFrame(program_, frame_);
  const int64_t now = absl::GetCurrentTimeNanos();
  cost_.Add(nanoseconds_ + now);
  if (times_ != nullptr) overlap_.EndStep(std::move(times_), status_.ok());
  if (overlaps_ && trace() == nullptr && status_.ok() && program_.is_static())
    overlap_.AddTried(now - began_);
  CallDone(status_);
}

bool DataflowExecutor::TakeEvents() {
  const int64_t now = absl::GetCurrentTimeNanos();
  nanoseconds_ += now;
  Event* event = inbox_.TakeOrPark();
  if (event == nullptr) return false;
  nanoseconds_ -= now;
  while (event != nullptr) {
    Event* const next = event->next;
    const int32_t index = event->instruction;
    --num_waiting_;
    if (overlaps_ && overlap_.is_heavy(index)) --num_handed_over_;
    waits_[index].is_under_way = false;
    states_[index].is_dead = waits_[index].context->is_dead();
    absl::Status status = std::exchange(event->status, absl::OkStatus());
    if (std::exchange(waits_[index].was_left_out, false)) {
      if (status_.ok()) status_ = std::move(status);
    } else {
      Complete(index, status);
    }
    event = next;
  }
  return true;
}

std::vector<std::string> DataflowExecutor::AwaitedNodes() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].is_under_way) names.push_back(program_.node_name(i));
  }
  return names;
}

KernelContext DataflowExecutor::MakeContext(const Instruction& at) {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  bool* last_use = last_use_.get() + at.first_input;
  const bool* is_repeated = program_.is_repeated() + at.first_input;
  for (int k = 0; k < at.num_inputs; ++k) last_use[k] = readers_left_[inputs[k]] == 1 && !is_repeated[k];
  return KernelContext(step_, program_.device(), frame_.slots.data(), inputs, last_use, at.num_inputs,
                       at.first_output, program_.output_types() + at.first_type, at.num_outputs,
                       program_.output_kinds(at), at.own_kind);
}

bool DataflowExecutor::HasDeadInput(const Instruction& at) const {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  return std::any_of(inputs, inputs + at.num_inputs, [this](int32_t slot) { return dead_slots_[slot]; });
}

void DataflowExecutor::Execute(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  bool& is_dead = states_[index].is_dead;
  if (any_dead_ && at.kind != Kind::kMerge) is_dead = is_dead || HasDeadInput(at);
  if (at.kind == Kind::kTrigger) is_dead = false;
  if (is_dead && !at.runs_when_dead) return Complete(index, absl::OkStatus());
  if (at.kind != Kind::kKernel) return Complete(index, RunFlow(index));
  if (at.kernel == nullptr) return Complete(index, absl::OkStatus());
  KernelContext context = MakeContext(at);
  context.set_dead(is_dead);
  Complete(index, Compute(index, context));
}

absl::Status DataflowExecutor::Compute(int32_t index, KernelContext& context) {
  const Instruction& at = program_.instructions()[index];
  if (trace() != nullptr) {
    trace()->Begin(index);
    absl::Status status = ComputeOnce(at, context, frame_.updates);
    trace()->End(index);
    return status;
  }
  if (times_ == nullptr) return ComputeOnce(at, context, frame_.updates);
  times_->Begin();
  absl::Status status = ComputeOnce(at, context, frame_.updates);
  times_->End(index);
  return status;
}

absl::Status DataflowExecutor::ComputeElsewhere(int32_t index) {
  if (trace() != nullptr) trace()->Begin(index);
  absl::Status status = ComputeOnce(program_.instructions()[index], *waits_[index].context, frame_.updates);
  if (trace() != nullptr) trace()->End(index);
  return status;
}

DataflowExecutor::Wait* DataflowExecutor::BeginWait(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  bool& is_dead = states_[index].is_dead;
  if (any_dead_) is_dead = is_dead || HasDeadInput(at);
  if (is_dead && !at.runs_when_dead) {
    Complete(index, absl::OkStatus());
    return nullptr;
  }
  Wait& wait = waits_[index];
  wait.context.emplace(MakeContext(at));
  wait.context->set_dead(is_dead);
  wait.is_under_way = true;
  ++num_waiting_;
  return &wait;
}

// Precondition: its kernel is synchronous.
void DataflowExecutor::HandOver(int32_t index) {
  if (BeginWait(index) == nullptr) return;
  ++num_handed_over_;
  std::unique_ptr<HandedOver>& work = handed_over_[index];
  if (work == nullptr) work = std::make_unique<HandedOver>(*this, index);
  step_.threads->Compute(work.get());
}

// The thread is in its outermost frame, so it may go on with the program itself.
bool DataflowExecutor::HandedOver::Run(int64_t budget) {
  DataflowExecutor& executor = executor_;  // once the event is posted, another step may use this object
  Wait& wait = executor.waits_[index_];
  const Cancellation& cancellation = *executor.step_.cancellation;
  wait.was_left_out = cancellation.is_cancelled();
  absl::Status status = wait.was_left_out ? cancellation.reason() : executor.ComputeElsewhere(index_);
  if (executor.Post(index_, std::move(status))) {
    if (executor.Run(budget)) executor.step_.threads->Compute(&executor);
  }
  return false;
}

void DataflowExecutor::ExecuteAsync(int32_t index) {
  Wait* const wait = BeginWait(index);
  if (wait == nullptr) return;
  const Instruction& at = program_.instructions()[index];
  if (at.async == nullptr) return StartBlocking(index);
  if (trace() != nullptr) trace()->Begin(index);
  at.async->ComputeAsync(*wait->context, [this, index](absl::Status status) {
    if (trace() != nullptr) trace()->End(index);
    OnAsyncDone(index, std::move(status));
  });
}

void DataflowExecutor::StartBlocking(int32_t index) {
  const absl::Status started =
      step_.threads->Block([this, index] { OnAsyncDone(index, ComputeElsewhere(index)); });
  if (started.ok()) return;
  --num_waiting_;
  waits_[index].is_under_way = false;
  Complete(index, started);
}

// Runs on any thread, perhaps inside of a kernel of this or another program.
void DataflowExecutor::OnAsyncDone(int32_t index, absl::Status status) {
  Threads& threads = *step_.threads;
  if (Post(index, std::move(status))) threads.Compute(this);
}

bool DataflowExecutor::Post(int32_t index, absl::Status status) {
  Event& event = waits_[index].event;
  event.instruction = index;
  event.status = std::move(status);
  return inbox_.Post(&event);
}

absl::Status DataflowExecutor::RunFlow(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  switch (at.kind) {
    case Kind::kSwitch:
      return RunSwitch(at);
    case Kind::kMerge:
      return RunMerge(index);
    case Kind::kKernel:
    case Kind::kTrigger:
      return absl::OkStatus();
    case Kind::kExit:
      states_[index].has_value = true;
      break;
    case Kind::kForward:
    case Kind::kEnter:
    case Kind::kNextIteration:
      break;
  }
  frame_.slots[at.first_output] = frame_.slots[program_.input_slots()[at.first_input]];
  return absl::OkStatus();
}

absl::Status DataflowExecutor::RunSwitch(const Instruction& at) {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  const Tensor& pred = frame_.slots[inputs[1]];
  if (pred.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("pred must be a scalar, is ", pred.shape().ToString()));
  }
  const int chosen = pred.flat<bool>()[0] ? 1 : 0;
  frame_.slots[at.first_output + chosen] = frame_.slots[inputs[0]];
  dead_slots_[at.first_output + chosen] = false;
  dead_slots_[at.first_output + 1 - chosen] = true;
  any_dead_ = true;
  return absl::OkStatus();
}

absl::Status DataflowExecutor::RunMerge(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  InstructionState& state = states_[index];
  state.is_dead = state.taken < 0;
  if (state.is_dead) return absl::OkStatus();
  frame_.slots[at.first_output] = frame_.slots[program_.input_slots()[at.first_input + state.taken]];
  frame_.slots[at.first_output + 1] = Tensor::Scalar<int32_t>(state.taken);
  return absl::OkStatus();
}

void DataflowExecutor::Fail(int32_t index, const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = program_.Annotate(index, status);
  step_.cancellation->Cancel(status_);
}

void DataflowExecutor::Complete(int32_t index, const absl::Status& status) {
  if (!status.ok()) return Fail(index, status);
  const Instruction& at = program_.instructions()[index];
  const bool is_dead = states_[index].is_dead;
  MarkOutputs(at, is_dead);
  ReleaseInputs(at);
  if (at.kind != Kind::kExit && at.kind != Kind::kNextIteration) TellSuccessors(index);
  CountDone(at.loop);
}

void DataflowExecutor::MarkOutputs(const Instruction& at, bool is_dead) {
  any_dead_ = any_dead_ || is_dead;
  // A Switch marks what it gives; what an Exit gives is known when its loop is over.
  if ((at.kind == Kind::kSwitch && !is_dead) || at.kind == Kind::kExit) return;
  for (int k = 0; k < at.num_outputs; ++k) dead_slots_[at.first_output + k] = is_dead;
}

void DataflowExecutor::TellSuccessors(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  for (int k = 0; k < at.num_successors; ++k) {
    const Successor& next = program_.successors()[at.first_successor + k];
    InstructionState& state = states_[next.instruction];
    if (program_.instructions()[next.instruction].kind == Kind::kMerge) {
      if (!next.is_control) {
        Arrive(next.instruction, index);
      } else if (--state.pending == 0) {
        MarkReady(next.instruction);
      }
      continue;
    }
    if (states_[index].is_dead && !next.is_state_order) state.is_dead = true;
    if (--state.pending == 0) ready_.push(next.instruction);
  }
}

void DataflowExecutor::Arrive(int32_t merge, int32_t from) {
  const Instruction& at = program_.instructions()[merge];
  InstructionState& state = states_[merge];
  for (int k = 0; k < at.num_inputs; ++k) {
    const int32_t slot = program_.input_slots()[at.first_input + k];
    if (!program_.Gives(from, slot)) continue;
    --state.arrivals_left;
    if (state.taken < 0 && !dead_slots_[slot]) state.taken = k;
  }
  MarkReady(merge);
}

// A Merge runs with its first live input, or when the last has come and none was.
void DataflowExecutor::MarkReady(int32_t merge) {
  InstructionState& state = states_[merge];
  if (state.is_ready || state.pending > 0 || (state.taken < 0 && state.arrivals_left > 0)) return;
  state.is_ready = true;
  ready_.push(merge);
}

void DataflowExecutor::CountDone(int32_t loop) {
  if (--parts_left(loop) == 0 && loop != kNoLoop) EndIteration(loop);
}

void DataflowExecutor::EndIteration(int32_t loop) {
  const ProgramLoop& at = program_.loops()[loop];
  const auto is_alive = [this](int32_t next) { return !states_[next].is_dead; };
  const bool goes_on = std::any_of(at.next_iterations.begin(), at.next_iterations.end(), is_alive);
  if (goes_on && at.end != ProgramLoop::kNone && !is_alive(at.end)) {
    // Nothing of the other devices would hold it back any more.
    return Fail(at.end, absl::InvalidArgumentError(absl::StrCat(
                            "the loop '", at.name,
                            "' goes on here when its condition has ended it elsewhere: "
                            "a NextIteration of it does not depend on a Switch of the condition")));
  }
  if (goes_on) {
    BeginNextIteration(loop);
  } else {
    LeaveLoop(loop);
  }
}

void DataflowExecutor::BeginNextIteration(int32_t loop) {
  const ProgramLoop& at = program_.loops()[loop];
  if (at.only_once != ProgramLoop::kNone) {
    // Said at once: what waits for it may be on another device, and this one wait for that.
    return Fail(at.only_once, NothingWillCome(absl::StrCat("'", program_.node_name(at.only_once), "'")));
  }
  // Else a device that waits for nothing would send all that another one works on at the end of its lead.
  if (++num_iterations_ % kIterationsBetweenFlushes == 0) on_idle_();
  for (int32_t slot : at.passing_slots) EmptySlot(slot);
  for (int32_t slot : at.lasting_slots) readers_left_[slot] = program_.slot_readers()[slot];
  parts_left(loop) = at.num_parts;
  for (int32_t index : at.instructions) Arm(index, /*is_first_iteration=*/false);
  for (int32_t end : at.next_iterations) TellSuccessors(end);
}

void DataflowExecutor::LeaveLoop(int32_t loop) {
  const ProgramLoop& at = program_.loops()[loop];
  for (int32_t slot : at.passing_slots) EmptySlot(slot);
  for (int32_t slot : at.lasting_slots) EmptySlot(slot);
  for (int32_t exit : at.exits) {
    states_[exit].is_dead = !states_[exit].has_value;
    dead_slots_[program_.instructions()[exit].first_output] = states_[exit].is_dead;
    TellSuccessors(exit);
  }
  ArmLoop(loop);
  CountDone(at.parent);
}

// For the first iteration, of the step or of an iteration of the loop around.
void DataflowExecutor::ArmLoop(int32_t loop) {
  const ProgramLoop& at = program_.loops()[loop];
  parts_left(loop) = at.num_parts;
  for (int32_t index : at.instructions) Arm(index, /*is_first_iteration=*/true);
}

void DataflowExecutor::Arm(int32_t index, bool is_first_iteration) {
  const Instruction& at = program_.instructions()[index];
  InstructionState& state = states_[index];
  state = {.pending = is_first_iteration ? at.num_pending : at.num_pending_later,
           .arrivals_left = is_first_iteration ? at.num_arrivals : at.num_arrivals_later,
           .has_value = !is_first_iteration && state.has_value};
  if (at.kind != Kind::kMerge && state.pending == 0) ready_.push(index);
}

void DataflowExecutor::EmptySlot(int32_t slot) {
  frame_.slots[slot] = Tensor();
  dead_slots_[slot] = false;
  readers_left_[slot] = program_.slot_readers()[slot];
}

void DataflowExecutor::ReleaseInputs(const Instruction& at) {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  const bool* is_repeated = program_.is_repeated() + at.first_input;
  for (int k = 0; k < at.num_inputs; ++k) {
    // An instruction that reads a slot twice counts as one reader.
    if (is_repeated[k] && std::find(inputs, inputs + k, inputs[k]) != inputs + k) continue;
    if (--readers_left_[inputs[k]] > 0) continue;
    if (program_.slot_readers()[inputs[k]] == Program::kKeptSlot) {
      readers_left_[inputs[k]] = Program::kKeptSlot;
    } else {
      frame_.slots[inputs[k]] = Tensor();
    }
  }
  if (at.kind == Kind::kNextIteration) return;  // read in the next iteration, in which its readers count anew
  for (int slot = at.first_output; slot < at.first_output + at.num_outputs; ++slot) {
    if (readers_left_[slot] == 0) frame_.slots[slot] = Tensor();
  }
}

absl::Status DataflowExecutor::CheckResults() const {
  if (!any_dead_) return absl::OkStatus();
  for (size_t i = 0; i < program_.results().size(); ++i) {
    const absl::Span<const int32_t> before = program_.before_result(i);
    const bool is_dead =
        dead_slots_[program_.results()[i].slot] ||
        std::any_of(before.begin(), before.end(), [this](int32_t index) { return states_[index].is_dead; });
    if (!is_dead) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", program_.result_name(i),
                     "' was fetched, but it is dead in this step: the branch of the "
                     "conditional that computes it was not taken"));
  }
  return absl::OkStatus();
}

// Possible only for a graph that no builder makes: nothing will ever come, so nobody must wait for it.
absl::Status DataflowExecutor::Stuck() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < states_.size() && names.size() < 5; ++i) {
    const bool waits = states_[i].pending > 0 || (states_[i].arrivals_left > 0 && !states_[i].is_ready);
    if (waits) names.push_back(absl::StrCat("'", program_.node_name(i), "'"));
  }
  return NothingWillCome(absl::StrJoin(names, ", "));
}

}  // namespace weir
