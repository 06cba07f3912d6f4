#include "session/executor/dataflow_executor.h"

#include <algorithm>
#include <utility>

#include "session/executor/static_schedule.h"

namespace weir {

DataflowExecutor::DataflowExecutor(const Program& program, Frame& frame, const StepContext& step,
                                   std::function<void()> on_idle)
    : program_(program), frame_(frame), step_(step), on_idle_(std::move(on_idle)),
      contexts_(program.instructions().size()) {
  size_t num_inputs = 0;
  for (const Instruction& at : program.instructions()) num_inputs += at.num_inputs;
  last_use_ = std::make_unique<bool[]>(num_inputs);
  Reset();
}

void DataflowExecutor::Reset() {
  const auto instructions = program_.instructions();
  pending_.resize(instructions.size());
  ready_ = ReadyQueue();
  for (size_t i = 0; i < instructions.size(); ++i) {
    pending_[i] = instructions[i].num_pending;
    if (pending_[i] == 0) ready_.push(i);
  }
  readers_left_.assign(program_.slot_readers().begin(), program_.slot_readers().end());
  num_left_ = instructions.size();
  num_waiting_ = 0;
  status_ = absl::OkStatus();
}

void DataflowExecutor::Start(Done done) {
  done_ = std::move(done);
  {
    absl::MutexLock lock(&mutex_);
    running_ = true;
  }
  RunReady();
}

void DataflowExecutor::RunReady() {
  do {
    while (!ready_.empty() && status_.ok()) {
      const int32_t index = ready_.top();
      ready_.pop();
      if (step_.cancellation->is_cancelled()) {
        status_ = step_.cancellation->reason();
      } else if (program_.instructions()[index].async != nullptr) {
        ExecuteAsync(index);
      } else {
        Execute(index);
      }
    }
    const bool is_over = num_waiting_ == 0 && (num_left_ == 0 || !status_.ok());
    if (is_over) {
      // All instructions are complete or will never start: nobody else touches this object now.
      {
        absl::MutexLock lock(&mutex_);
        running_ = false;
      }
      if (!status_.ok()) ClearFrame(program_, frame_);
      std::exchange(done_, nullptr)(status_);
      return;
    }
    on_idle_();
  } while (TakeFinished());
}

bool DataflowExecutor::TakeFinished() {
  std::vector<std::pair<int32_t, absl::Status>> finished;
  {
    absl::MutexLock lock(&mutex_);
    if (finished_.empty()) {
      running_ = false;
      return false;
    }
    finished.swap(finished_);
  }
  for (auto& [index, status] : finished) {
    --num_waiting_;
    Complete(index, status);
  }
  return true;
}

KernelContext DataflowExecutor::MakeContext(const Instruction& at) {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  bool* last_use = last_use_.get() + at.first_input;
  for (int k = 0; k < at.num_inputs; ++k) last_use[k] = readers_left_[inputs[k]] == 1;
  return KernelContext(step_, program_.device(), frame_.slots.data(), inputs, last_use, at.num_inputs,
                       at.first_output, program_.output_types() + at.first_type, at.num_outputs);
}

void DataflowExecutor::Execute(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  if (at.kernel == nullptr) return Complete(index, absl::OkStatus());
  KernelContext context = MakeContext(at);
  Complete(index, at.kernel->Compute(context));
}

void DataflowExecutor::ExecuteAsync(int32_t index) {
  const Instruction& at = program_.instructions()[index];
  contexts_[index].emplace(MakeContext(at));
  ++num_waiting_;
  at.async->ComputeAsync(*contexts_[index],
                         [this, index](absl::Status status) { OnAsyncDone(index, std::move(status)); });
}

void DataflowExecutor::OnAsyncDone(int32_t index, absl::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    finished_.emplace_back(index, std::move(status));
    if (running_) return;
    running_ = true;
  }
  if (TakeFinished()) RunReady();
}

void DataflowExecutor::Complete(int32_t index, const absl::Status& status) {
  const Instruction& at = program_.instructions()[index];
  --num_left_;
  if (!status.ok()) {
    if (status_.ok()) {
      status_ = program_.Annotate(index, status);
      step_.cancellation->Cancel(status_);
    }
    return;
  }
  ReleaseInputs(at);
  for (int k = 0; k < at.num_successors; ++k) {
    const int32_t next = program_.successors()[at.first_successor + k];
    if (--pending_[next] == 0) ready_.push(next);
  }
}

void DataflowExecutor::ReleaseInputs(const Instruction& at) {
  const int32_t* inputs = program_.input_slots() + at.first_input;
  for (int k = 0; k < at.num_inputs; ++k) {
    // An instruction that reads a slot twice counts as one reader.
    if (std::find(inputs, inputs + k, inputs[k]) != inputs + k) continue;
    if (--readers_left_[inputs[k]] == 0) frame_.slots[inputs[k]] = Tensor();
  }
  for (int slot = at.first_output; slot < at.first_output + at.num_outputs; ++slot) {
    if (readers_left_[slot] == 0) frame_.slots[slot] = Tensor();
  }
}

}  // namespace weir
