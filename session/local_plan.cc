#include "session/local_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/long_wait.h"
#include "session/executor/dataflow_executor.h"
#include "session/executor/static_schedule.h"
#include "session/step_trace.h"

namespace weir {
namespace {
// More than any plan has. A step of so many takes 15 MB; of so many in loops, with tensors, 240 MB.
constexpr size_t kMaxReceivedEdges = 1 << 17;
// Of an owner with so many steps under way at once older ones are forgotten.
constexpr size_t kRememberedSteps = 1024;
constexpr size_t kMinIdleSteps = 8;  // kept also when nothing runs
}  // namespace

absl::StatusOr<std::shared_ptr<LocalPlan>> LocalPlan::Compile(Runtime& runtime, Threads& threads,
                                                              TensorSender* sender, const PartitionSpec& spec,
                                                              SessionState* session,
                                                              std::shared_ptr<EarlySteps> early_steps,
                                                              UpdateLedger* ledger) {
  auto plan = std::make_shared<LocalPlan>(runtime.environment(), threads, sender, spec,
                                          std::move(early_steps), ledger);
  for (const auto& graph : spec.graphs) {
    if (graph->num_nodes() == 0) continue;
    const DeviceName& name = graph->node(0)->assigned_device();
    Device* device = runtime.FindDevice(name);
    if (device == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("this worker (", runtime.task().ToString(), ") has no device ", name.ToString()));
    }
    WEIR_RETURN_IF_ERROR(plan->CheckLate(*graph));
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<const Program> program,
                          Program::Compile(*graph, *device, runtime.kernels(), session));
    WEIR_RETURN_IF_ERROR(plan->CheckBindings(*program));
    plan->overlaps_.emplace_back(*program, runtime.overlap());
    plan->recorded_.push_back(runtime.cuda_graphs() ? RecordedRuns::Create(*program) : nullptr);
    plan->has_updates_ |= program->has_updates();
    plan->has_copies_ |= device->memory_kind() == MemoryKind::kDevice;
    if (auto* const late_errors = dynamic_cast<LateErrors*>(device)) {
      plan->late_errors_.push_back(late_errors);
    }
    plan->programs_.push_back(std::move(program));
    plan->costs_.emplace_back();
    WEIR_RETURN_IF_ERROR(plan->AddEdges(*graph));
  }
  WEIR_RETURN_IF_ERROR(plan->FinishEdges());
  WEIR_RETURN_IF_ERROR(plan->CheckResults());
  plan->step_bytes_ = plan->StepBytes();
  return plan;
}

LocalPlan::StepState::StepState(LocalPlan& plan)
    : rendezvous(plan.received_, plan.sender_, plan.id_, plan.loop_edges_),
      late_results(
          plan.threads_, [this] { programs_left.fetch_add(1, std::memory_order_acq_rel); },
          [this, &plan] { plan.OnProgramDone(*this, absl::OkStatus()); }),
      copies(
          plan.threads_, [this] { programs_left.fetch_add(1, std::memory_order_acq_rel); },
          [this, &plan](const absl::Status& status) { plan.OnProgramDone(*this, status); }) {
  context = {.cancellation = &cancellation,
             .rendezvous = &rendezvous,
             .threads = &plan.threads_,
             .pending = &copies};
  for (size_t i = 0; i < plan.programs_.size(); ++i) {
    const Program& program = *plan.programs_[i];
    frames.push_back(std::make_unique<ProgramFrame>(program));
    if (program.is_static()) {
      activations.push_back(std::make_unique<StaticActivation>(program, *frames[i], context, plan.costs_[i],
                                                               plan.overlaps_[i], plan.recorded_[i].get()));
    } else {
      activations.push_back(MakeExecutor(plan, i));
    }
  }
  overlapping.resize(plan.programs_.size());
}

std::unique_ptr<Activation> LocalPlan::StepState::MakeExecutor(LocalPlan& plan, size_t program) {
  return std::make_unique<DataflowExecutor>(*plan.programs_[program], *frames[program], context,
                                            plan.costs_[program], plan.overlaps_[program],
                                            [this] { rendezvous.Flush(); });
}

Activation& LocalPlan::ActivationOf(StepState& step, size_t program) {
  const bool is_in_line = !programs_[program]->is_static() || !overlaps_[program].overlaps();
  // None where the program overlapped when the step began, and another step has given that up since.
  if (is_in_line && step.activations[program] != nullptr) return *step.activations[program];
  std::unique_ptr<Activation>& overlapping = step.overlapping[program];
  if (overlapping == nullptr) overlapping = step.MakeExecutor(*this, program);
  return *overlapping;
}

// Only the session's own worker has late arguments and results, and knows which edges are theirs.
absl::Status LocalPlan::CheckLate(const Graph& graph) const {
  for (const auto& node : graph.nodes()) {
    const bool is_arg = node->op_name() == kArgOp;
    const AttrValue* const edge = node->FindAttr(kEdgeAttr);
    if (edge == nullptr || (!is_arg && node->op_name() != kRetvalOp)) continue;
    const int64_t first = is_arg ? num_sent_edges() : num_edges_ - num_late_results_;
    const int64_t end = is_arg ? num_edges_ - num_late_results_ : num_edges_;
    const int64_t* const number = edge->get_if<int64_t>();
    const AttrValue* const name = node->FindAttr(kFeedNameAttr);
    const bool has_name = name != nullptr && name->get_if<std::string>() != nullptr;
    if (number != nullptr && *number >= first && *number < end && (has_name || !is_arg)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(node->Describe(), " has ", kEdgeAttr, " ", edge->ToString(),
                     ", the worker's late edges of that kind are [", first, ", ", end, ")",
                     is_arg ? "; a late argument needs a name" : ""));
  }
  return absl::OkStatus();
}

absl::Status LocalPlan::CheckBindings(const Program& program) const {
  for (const Program::Binding& arg : program.args()) {
    if (arg.index >= num_args_) {
      return absl::InvalidArgumentError(
          absl::StrCat("_Arg index ", arg.index, " of ", num_args_, " arguments"));
    }
  }
  for (const Program::Binding& result : program.results()) {
    if (result.index >= num_results_) {
      return absl::InvalidArgumentError(
          absl::StrCat("_Retval index ", result.index, " of ", num_results_, " results"));
    }
  }
  return absl::OkStatus();
}

LocalPlan::StepState* LocalPlan::Find(int64_t step_id) {
  const auto found = active_.find(step_id);
  return found == active_.end() ? nullptr : found->second.get();
}

absl::StatusOr<LocalPlan::StepState*> LocalPlan::FindOrCreateEarly(int64_t step_id) {
  const auto [found, is_new] = active_.try_emplace(step_id);
  if (!is_new) return found->second.get();
  if (absl::Status room = early_steps_->Add(session_, id_, num_early_, step_bytes_); !room.ok()) {
    active_.erase(found);
    return room;
  }
  ++num_early_;
  StepState& step = Fill(step_id, found->second);
  step.is_early = true;
  return &step;
}

void LocalPlan::LeaveEarly(StepState& step) {
  if (!std::exchange(step.is_early, false)) return;
  --num_early_;
  early_steps_->Remove(session_, step_bytes_);
}

LocalPlan::StepState& LocalPlan::Fill(int64_t step_id, std::unique_ptr<StepState>& place) {
  if (pool_.empty()) pool_.push_back(std::make_unique<StepState>(*this));
  place = std::move(pool_.back());
  StepState& step = *place;
  pool_.pop_back();
  step.context.step_id = step_id;
  if (num_edges_ > 0) {
    step.rendezvous.Reset(step_id);
    step.abort_callback =
        step.cancellation.OnCancel([&step](const absl::Status& reason) { step.rendezvous.Abort(reason); });
  }
  return step;
}

void LocalPlan::Run(const RunPartitionCall& call, Done done) {
  if (call.applied_updates != nullptr && call.logical_step.writer != 0) {
    // Its updates would wait for the lock under which what is applied is noted.
    return done(absl::InvalidArgumentError(absl::StrCat(
        "step ", call.step_id, " is to note what has been applied, and has a number that others may know")));
  }
  absl::Status refused;
  StepState* step = nullptr;
  std::optional<UpdateLedger::Attempt> updates;
  if (has_updates_ && call.logical_step.writer != 0) {
    absl::StatusOr<UpdateLedger::Attempt> attempt = ledger_->BeginStep(call.logical_step);
    if (!attempt.ok()) return done(attempt.status());
    updates = *std::move(attempt);
  }
  std::vector<std::unique_ptr<StepState>> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (call.over_below > over_below_) ForgetBelow(call.over_below, &dropped);
    auto over = over_.find(call.step_id);
    if (!closed_.ok()) {
      refused = closed_;
    } else if (over != over_.end()) {
      refused = !over->second.ok()
                    ? over->second
                    : absl::AlreadyExistsError(absl::StrCat("step ", call.step_id, " has already run"));
    } else if (call.step_id < over_below_) {
      refused =
          absl::AbortedError(absl::StrCat("step ", call.step_id, " comes too late: its owner has said that ",
                                          "those below ", over_below_, " are over"));
    } else if (const auto [found, is_new] = active_.try_emplace(call.step_id);
               !is_new && found->second->started) {
      refused = absl::AlreadyExistsError(absl::StrCat("step ", call.step_id, " is already running"));
    } else {
      step = is_new ? &Fill(call.step_id, found->second) : found->second.get();
      step->started = true;
      LeaveEarly(*step);
      // One more than there are, so that the step cannot finish while programs are still being started.
      step->programs_left.store(static_cast<int>(programs_.size()) + 1, std::memory_order_release);
      ++num_running_;
    }
  }
  for (std::unique_ptr<StepState>& unstarted : dropped) {
    Clear(*unstarted);
    Recycle(std::move(unstarted));
  }
  if (step == nullptr) return done(refused);
  step->call = &call;
  step->done = std::move(done);
  if (updates || step->updates) SetUpdates(*step, std::move(updates));
  StartPrograms(*step);
}

void LocalPlan::SetUpdates(StepState& step, std::optional<UpdateLedger::Attempt> updates) {
  step.updates = std::move(updates);
  for (const auto& frame : step.frames) frame->updates = step.updates ? &*step.updates : nullptr;
}

void LocalPlan::StartPrograms(StepState& step) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    for (const Program::Binding& arg : programs_[i]->args()) {
      step.frames[i]->slots[arg.slot] = step.call->args[arg.index];
    }
  }
  if (num_late_results_ > 0) {
    step.late_results.Start(step.rendezvous, num_edges_ - num_late_results_, num_late_results_, *step.call);
  }
  if (step.call->trace != nullptr) BeginTrace(step);
  // Inside a RunScope the caller wants to know of the step, and to be able to end it, before it computes.
  const bool runs_at_once = may_run_at_once() && !RunScope::IsInside();
  if (has_copies_) step.plan = shared_from_this();
  if (step.call->applied_updates != nullptr && may_capture()) {
    RunAndCapture(step);
  } else if (runs_at_once && (step.call->trace != nullptr || !overlaps_[0].overlaps())) {
    OnProgramDone(step, RunAtOnce(step));
  } else {
    RunActivations(step);
  }
  StartTimer(step);
  OnProgramDone(step, absl::OkStatus());
}

absl::Status LocalPlan::RunAtOnce(StepState& step) {
  const Program& program = *programs_[0];
  ProgramFrame& frame = *step.frames[0];
  const absl::Time deadline = step.call->deadline;
  if (step.call->trace != nullptr) {
    return RunStaticSchedule(program, frame, step.context, deadline, *step.traces[0]);
  }
  if (recorded_[0] != nullptr) return recorded_[0]->Run(frame, step.context, deadline);
  return RunStaticSchedule(program, frame, step.context, deadline, overlaps_[0]);
}

void LocalPlan::RunAndCapture(StepState& step) {
  std::vector<absl::Status> statuses(programs_.size());
  *step.call->applied_updates = ledger_->Capture([&] {
    for (size_t i = 0; i < programs_.size(); ++i) {
      statuses[i] =
          RunStaticSchedule(*programs_[i], *step.frames[i], step.context, step.call->deadline, overlaps_[i]);
    }
  });
  for (const absl::Status& status : statuses) OnProgramDone(step, status);
}

void LocalPlan::RunActivations(StepState& step) {
  step.plan = shared_from_this();
  {
    RunScope scope;
    for (size_t i = 0; i < programs_.size(); ++i) step.running.push_back(&ActivationOf(step, i));
    for (size_t i = 0; i < step.traces.size(); ++i) step.running[i]->set_trace(step.traces[i].get());
    for (Activation* const activation : step.running) {
      activation->Start(step.call->deadline,
                        [this, &step](absl::Status status) { OnProgramDone(step, status); });
    }
  }
}

void LocalPlan::StartTimer(StepState& step) {
  // Most steps are over by now. One that is not cannot end before the caller has let go of it.
  if (step.programs_left.load(std::memory_order_acquire) == 1) return;
  if (step.call->deadline == absl::InfiniteFuture()) return;
  step.timer = threads_.At(step.call->deadline,
                           [plan = shared_from_this(), id = step.context.step_id] { plan->OnDeadline(id); });
}

void LocalPlan::BeginTrace(StepState& step) {
  for (const auto& program : programs_) step.traces.push_back(std::make_unique<ProgramTrace>(*program));
}

void LocalPlan::EndTrace(StepState& step) {
  for (const auto& trace : step.traces) step.call->trace->Add(trace->Take());
  for (Activation* const activation : step.running) activation->set_trace(nullptr);
  step.traces.clear();
}

void LocalPlan::OnDeadline(int64_t step_id) {
  StepState* step = nullptr;
  std::string awaited;
  {
    absl::MutexLock lock(&mutex_);
    step = Find(step_id);
    // The end of a step does not wait for its timer, and once no step is left the sender may go.
    if (step == nullptr || !TryHold(*step)) return;
    awaited = AwaitedEdges(step->rendezvous);
  }
  WithdrawTensors(step_id);
  OnProgramDone(*step, absl::DeadlineExceededError(
                           absl::StrCat("step ", step_id, " has run out of time",
                                        awaited.empty() ? "" : absl::StrCat(", waiting for ", awaited))));
}

absl::Status LocalPlan::AddEdges(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const bool is_late_arg = node->op_name() == kArgOp && node->FindAttr(kEdgeAttr) != nullptr;
    if (node->op_name() != kRecvOp && !is_late_arg) continue;
    const int64_t edge = node->attr<int64_t>(kEdgeAttr);
    if (edge < 0 || edge >= num_edges_) {
      return absl::InvalidArgumentError(
          absl::StrCat(node->Describe(), " receives edge ", edge, " of a plan with ", num_edges_, " edges"));
    }
    if (!is_late_arg && node->FindAttr(kInLoopAttr) != nullptr) {
      WEIR_ASSIGN_OR_RETURN(const int head_start, HeadStartOf(*node));
      loop_edges_.push_back({static_cast<int>(edge), head_start});
    }
    Source& source = sources_[static_cast<int>(edge)];
    if (is_late_arg) {
      source = {absl::StrCat("'", node->attr<std::string>(kFeedNameAttr), "' to be fed"), ""};
    } else {
      source = {absl::StrCat("'", node->attr<std::string>("tensor_name"), "'"),
                node->attr<std::string>("send_device")};
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> LocalPlan::HeadStartOf(const Node& recv) {
  const AttrValue* const attr = recv.FindAttr(kHeadStartAttr);
  if (attr == nullptr) return 0;
  const int64_t* const number = attr->get_if<int64_t>();
  if (number != nullptr && *number >= 0 && *number <= kLoopLead) return static_cast<int>(*number);
  return absl::InvalidArgumentError(absl::StrCat(recv.Describe(), " has ", kHeadStartAttr, " ",
                                                 attr->ToString(), ", which must be in [0, ", kLoopLead,
                                                 "]"));
}

absl::Status LocalPlan::FinishEdges() {
  std::vector<int> received;
  for (const auto& [edge, source] : sources_) received.push_back(edge);
  for (int i = 0; i < num_late_results_; ++i) received.push_back(num_edges_ - num_late_results_ + i);
  received_ = ReceivedEdges(std::move(received));
  if (received_.size() <= kMaxReceivedEdges) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("plan ", id_, " receives ", received_.size(),
                                                   " tensors on this task, at most ", kMaxReceivedEdges,
                                                   " are possible"));
}

// A caller must not make room for results that nobody will compute.
absl::Status LocalPlan::CheckResults() const {
  size_t num_computed = 0;
  for (const auto& program : programs_) num_computed += program->results().size();
  if (static_cast<size_t>(num_results_) <= num_computed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan ", id_, " is to give ", num_results_, " results, its graphs have ", num_computed));
}

int64_t LocalPlan::StepBytes() const {
  constexpr int64_t kBytesPerInstruction = 32;  // of an executor, about
  int64_t num_bytes = sizeof(StepState) + Rendezvous::NumBytes(received_.size(), loop_edges_.size());
  for (const auto& program : programs_) {
    num_bytes += program->num_slots() * int64_t{sizeof(Tensor)};
    num_bytes += kBytesPerInstruction * static_cast<int64_t>(program->instructions().size());
  }
  return num_bytes;
}

std::string LocalPlan::AwaitedEdges(const Rendezvous& rendezvous) const {
  constexpr size_t kMaxNames = 5;
  std::vector<std::string> names;
  std::vector<int> edges = rendezvous.awaited_edges();
  while (!edges.empty() && edges.back() >= num_edges_ - num_late_results_) edges.pop_back();
  for (const int edge : edges) {
    if (names.size() == kMaxNames) break;
    const auto source = sources_.find(edge);
    if (source != sources_.end()) names.push_back(source->second.ToString());
  }
  if (edges.size() > names.size()) names.push_back(absl::StrCat(edges.size() - names.size(), " more"));
  return absl::StrJoin(names, ", ");
}

std::string LocalPlan::DescribeWaits() const {
  absl::MutexLock lock(&mutex_);
  std::vector<const StepState*> started;
  for (const auto& [id, step] : active_) {
    if (step->started) started.push_back(step.get());
  }
  std::sort(started.begin(), started.end(),
            [](const StepState* a, const StepState* b) { return a->context.step_id < b->context.step_id; });
  std::string lines;
  for (const StepState* const step : started) {
    for (size_t i = 0; i < step->running.size(); ++i) {
      const std::vector<std::string> nodes = step->running[i]->AwaitedNodes();
      if (nodes.empty()) continue;
      absl::StrAppend(&lines, "step ", step->context.step_id, " on ",
                      programs_[i]->device().name().ToString(), " waits at ", absl::StrJoin(nodes, ", "),
                      "\n");
    }
    const std::string edges = AwaitedEdges(step->rendezvous);
    if (!edges.empty()) {
      absl::StrAppend(&lines, "step ", step->context.step_id, " waits for ", edges, "\n");
    }
  }
  return lines;
}

void LocalPlan::OnProgramDone(StepState& step, const absl::Status& status) {
  if (!status.ok()) {
    // Another program may have failed before and not have come here yet: this one may only say that the step
    // is over, and that one why.
    step.cancellation.Cancel(status);
    absl::MutexLock lock(&step.status_mutex);
    if (step.status.ok()) step.status = step.cancellation.reason();
  }
  if (step.programs_left.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(step);
}

void LocalPlan::Finish(StepState& step) {
  const std::shared_ptr<LocalPlan> keep_alive =
      step.plan ? std::exchange(step.plan, nullptr) : shared_from_this();
  if (step.timer != 0) threads_.Forget(std::exchange(step.timer, 0));
  absl::Status status;
  {
    absl::MutexLock lock(&step.status_mutex);
    status = std::exchange(step.status, absl::OkStatus());
  }
  for (LateErrors* const late_errors : late_errors_) {
    status.Update(late_errors->EndStep(step.copies, !status.ok()));
  }
  for (size_t i = 0; i < programs_.size(); ++i) {
    ProgramFrame& frame = *step.frames[i];
    if (status.ok()) {
      for (const Program::Binding& result : programs_[i]->results()) {
        step.call->results[result.index] = frame.slots[result.slot];
      }
    }
    if (status.ok()) {
      for (const Program::Binding& arg : programs_[i]->args()) frame.slots[arg.slot] = Tensor();
      for (const Program::Binding& result : programs_[i]->results()) {
        if (!result.is_constant) frame.slots[result.slot] = Tensor();
      }
    } else {
      ClearFrame(*programs_[i], frame);
    }
  }
  if (!step.traces.empty()) EndTrace(step);
  for (Activation* const activation : step.running) activation->Reset();
  step.running.clear();
  if (num_edges_ > 0) {
    if (!status.ok()) WithdrawTensors(step.context.step_id);
    step.rendezvous.FlushLast();
  }
  Done done = std::move(step.done);
  std::unique_ptr<StepState> owned;
  {
    absl::MutexLock lock(&mutex_);
    owned = Extract(step.context.step_id);
    if (num_edges_ > 0) Remember(step.context.step_id);
  }
  Clear(*owned);
  done(status);
  Recycle(std::move(owned));
}

bool LocalPlan::is_light() const {
  return std::none_of(costs_.begin(), costs_.end(), [](const ProgramCost& cost) { return cost.is_heavy(); });
}

bool LocalPlan::IsOver(int64_t step_id) const { return step_id < over_below_ || over_.contains(step_id); }

void LocalPlan::ForgetBelow(int64_t step_id, std::vector<std::unique_ptr<StepState>>* dropped) {
  over_below_ = step_id;
  while (!over_order_.empty() && over_order_.front() < step_id) {
    over_.erase(over_order_.front());
    over_order_.pop_front();
  }
  if (num_early_ == 0) return;
  std::vector<int64_t> ids;
  for (const auto& [id, step] : active_) {
    if (id < step_id && !step->started) ids.push_back(id);
  }
  for (const int64_t id : ids) dropped->push_back(Extract(id));
}

void LocalPlan::Remember(int64_t step_id) {
  if (step_id < over_below_ || !over_.emplace(step_id, absl::OkStatus()).second) return;
  over_order_.push_back(step_id);
  if (over_order_.size() <= kRememberedSteps) return;
  over_.erase(over_order_.front());
  over_order_.pop_front();
}

std::unique_ptr<LocalPlan::StepState> LocalPlan::Extract(int64_t step_id) {
  const auto found = active_.find(step_id);
  if (found == active_.end()) return nullptr;
  std::unique_ptr<StepState> step = std::move(found->second);
  active_.erase(found);
  LeaveEarly(*step);
  return step;
}

void LocalPlan::Clear(StepState& step) {
  step.cancellation.Remove(std::exchange(step.abort_callback, 0));
  step.cancellation.Reset();
  if (num_edges_ > 0) step.rendezvous.Reset(0);
  step.held.clear();
  step.call = nullptr;
}

void LocalPlan::Recycle(std::unique_ptr<StepState> step) {
  const int num_ended = std::exchange(step->started, false) ? 1 : 0;
  std::vector<std::unique_ptr<StepState>> surplus;
  {
    absl::MutexLock lock(&mutex_);
    pool_.push_back(std::move(step));
    const size_t num_kept = std::max(kMinIdleSteps, active_.size());
    while (pool_.size() > num_kept) {
      surplus.push_back(std::move(pool_.back()));
      pool_.pop_back();
    }
    // The common case takes the lock once: this is a good part of what a small step costs.
    if (surplus.empty()) num_running_ -= num_ended;
  }
  if (surplus.empty()) return;
  surplus.clear();  // without the lock, and before the worker may end
  absl::MutexLock lock(&mutex_);
  num_running_ -= num_ended;
}

bool LocalPlan::TryHold(StepState& step) {
  int left = step.programs_left.load(std::memory_order_acquire);
  while (left > 0) {
    if (step.programs_left.compare_exchange_weak(left, left + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

// This part of the step may be over, and what it has sent may still wait for room on its way.
void LocalPlan::WithdrawTensors(int64_t step_id) const {
  if (num_edges_ > 0 && sender_ != nullptr) sender_->Withdraw(id_, step_id);
}

void LocalPlan::Cancel(int64_t step_id, const absl::Status& reason) {
  WithdrawTensors(step_id);
  StepState* running = nullptr;
  std::unique_ptr<StepState> unstarted;
  {
    absl::MutexLock lock(&mutex_);
    StepState* step = Find(step_id);
    if (step != nullptr && step->started) {
      if (TryHold(*step)) running = step;
    } else if (!IsOver(step_id)) {
      Remember(step_id);
      over_[step_id] = reason;
      if (step != nullptr) unstarted = Extract(step_id);
    }
  }
  if (unstarted) {
    Clear(*unstarted);
    Recycle(std::move(unstarted));
  }
  if (running != nullptr) OnProgramDone(*running, reason);
}

absl::Status LocalPlan::CheckSent(int edge) const {
  if (edge < 0 || edge >= num_sent_edges()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor came for edge ", edge, " of a plan with ", num_sent_edges(), " edges"));
  }
  if (received_.SlotOf(edge) != ReceivedEdges::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a tensor came for edge ", edge, ", which this task does not receive"));
}

absl::Status LocalPlan::CheckSender(int edge, absl::string_view sender) const {
  const auto source = sources_.find(edge);
  if (source == sources_.end() || absl::StartsWith(source->second.send_device, absl::StrCat(sender, "/"))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("a tensor for edge ", edge, " of plan ", id_, " came from ",
                                                  sender, ", but is ", source->second.ToString()));
}

absl::Status LocalPlan::Feed(int64_t step_id, int arg, const Tensor& tensor) {
  if (arg < 0 || arg >= num_late_args_) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", arg, " came for a step with ", num_late_args_, " late arguments"));
  }
  StepState* step = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    step = Find(step_id);
    if (step == nullptr || !step->started || !TryHold(*step)) return absl::OkStatus();
  }
  const absl::Status status = step->rendezvous.Send(num_sent_edges() + arg, tensor, /*is_dead=*/false);
  OnProgramDone(*step, absl::OkStatus());
  return status;
}

absl::Status LocalPlan::Receive(int64_t step_id, int edge, int64_t turn, const Tensor& tensor, bool is_dead) {
  StepState* step = nullptr;
  WEIR_RETURN_IF_ERROR(CheckSent(edge));
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    if (IsOver(step_id)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(step, FindOrCreateEarly(step_id));
    if (!step->started)  // nobody waits yet: no callback runs
      return step->rendezvous.Deliver(edge, turn, tensor, is_dead);
    if (!TryHold(*step)) return absl::OkStatus();
  }
  const absl::Status status = step->rendezvous.Deliver(edge, turn, tensor, is_dead);
  OnProgramDone(*step, absl::OkStatus());
  return status;
}

absl::StatusOr<bool> LocalPlan::Hold(int64_t step_id, int edge, int64_t turn, std::shared_ptr<void> held) {
  WEIR_RETURN_IF_ERROR(CheckSent(edge));
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok() || IsOver(step_id)) return false;
  WEIR_ASSIGN_OR_RETURN(StepState * step, FindOrCreateEarly(step_id));
  const bool is_in_loop = std::any_of(loop_edges_.begin(), loop_edges_.end(),
                                      [edge](const LoopEdge& in_loop) { return in_loop.edge == edge; });
  if (is_in_loop || turn != kOnlyTurn) return step->rendezvous.Hold(edge, turn, std::move(held));
  step->held.push_back(std::move(held));
  return true;
}

void LocalPlan::Close(const absl::Status& reason) {
  std::vector<int64_t> ids;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = reason;
    for (const auto& [id, step] : active_) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  for (int64_t id : ids) Cancel(id, reason);
}

void LocalPlan::WaitUntilIdle() {
  absl::MutexLock lock(&mutex_);
  AwaitAloud(environment_, mutex_,
             absl::Condition(
                 +[](int* running) { return *running == 0; }, &num_running_),
             [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
               return absl::StrCat("the end of a plan waits for ", num_running_,
                                   " steps that were cancelled and have not ended: a kernel may take long");
             });
}

}  // namespace weir
