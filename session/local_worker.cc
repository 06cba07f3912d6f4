// Implementation notes. A Plan keeps a pool of Steps: a Step holds the frames, the rendezvous and the
// cancellation token of one step and is reused, so a running step allocates nothing of its own. A step may
// come into being by its RunPartition, by a tensor that another worker pushed early, or by an early
// CancelStep; it leaves with its RunPartition, with a CancelStep before that, or with its plan. Ids of steps
// that have left are remembered for a while, so that a tensor that comes late makes no new step.
//
// A started step counts what has not finished: its programs, and whoever is just working on it from outside.
// The one who finishes last ends the step. While it may be run by other threads it holds its plan.
#include "session/local_worker.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "session/executor/dataflow_executor.h"
#include "session/executor/program.h"
#include "session/executor/static_schedule.h"
#include "session/rendezvous.h"

namespace weir {
namespace {
constexpr size_t kMaxUnstartedSteps = 256;
constexpr size_t kRememberedSteps = 1024;
}  // namespace

class LocalWorker::Plan : public std::enable_shared_from_this<LocalWorker::Plan> {
 public:
  static absl::StatusOr<std::shared_ptr<Plan>> Compile(Runtime& runtime, Threads& threads,
                                                       TensorSender* sender, const PartitionSpec& spec,
                                                       SessionState* session) {
    auto plan = std::make_shared<Plan>(threads, sender, spec);
    for (const auto& graph : spec.graphs) {
      if (graph->num_nodes() == 0) continue;
      const DeviceName& name = graph->node(0)->assigned_device();
      Device* device = runtime.FindDevice(name);
      if (device == nullptr) {
        return absl::NotFoundError(
            absl::StrCat("this worker (", runtime.task().ToString(), ") has no device ", name.ToString()));
      }
      WEIR_ASSIGN_OR_RETURN(std::unique_ptr<const Program> program,
                            Program::Compile(*graph, *device, runtime.kernels(), session));
      WEIR_RETURN_IF_ERROR(plan->CheckBindings(*program));
      plan->programs_.push_back(std::move(program));
      plan->costs_.emplace_back();
      plan->AddEdgeNames(*graph);
    }
    return plan;
  }

  Plan(Threads& threads, TensorSender* sender, const PartitionSpec& spec)
      : threads_(threads),
        sender_(sender),
        id_(spec.plan),
        num_edges_(spec.num_edges),
        num_args_(spec.num_args),
        num_results_(spec.num_results) {}

  void Run(const RunPartitionCall& call, Done done);
  void Cancel(int64_t step_id, const absl::Status& reason);
  absl::Status Receive(int64_t step_id, int edge, const Tensor& tensor, bool is_dead);
  absl::StatusOr<bool> Hold(int64_t step_id, int edge, std::shared_ptr<void> held);
  // Cancels all steps; the plan accepts no more.
  void Close(const absl::Status& reason);
  void WaitUntilIdle();
  std::string DescribeWaits() const;
  int num_running() const {
    absl::MutexLock lock(&mutex_);
    return num_running_;
  }

 private:
  struct Step {
    Step(Plan& plan) : rendezvous(plan.num_edges_, plan.sender_, plan.id_) {
      context = {.cancellation = &cancellation, .rendezvous = &rendezvous, .threads = &plan.threads_};
      for (size_t i = 0; i < plan.programs_.size(); ++i) {
        const Program& program = *plan.programs_[i];
        frames.push_back(std::make_unique<Frame>(program));
        if (plan.runs_at_once()) continue;
        if (program.is_static()) {
          activations.push_back(
              std::make_unique<StaticActivation>(program, *frames[i], context, plan.costs_[i]));
        } else {
          activations.push_back(std::make_unique<DataflowExecutor>(
              program, *frames[i], context, plan.costs_[i], [this] { rendezvous.Flush(); }));
        }
      }
    }
    StepContext context;
    Cancellation cancellation;
    Rendezvous rendezvous;
    std::vector<std::unique_ptr<Frame>> frames;
    std::vector<std::unique_ptr<Activation>> activations;  // none when the plan runs at once
    std::vector<std::shared_ptr<void>> held;  // guarded by the plan's mutex while the step is active
    uint64_t abort_callback = 0;
    bool started = false;
    const RunPartitionCall* call = nullptr;
    Done done;
    std::shared_ptr<Plan> plan;  // while threads have its activations
    Threads::TimerId timer = 0;
    std::atomic<int> programs_left{0};
    absl::Mutex status_mutex;
    absl::Status status ABSL_GUARDED_BY(status_mutex);
  };

  // One program, in which nothing waits: it needs no activation.
  bool runs_at_once() const { return programs_.size() == 1 && programs_[0]->is_static(); }
  absl::Status CheckBindings(const Program& program) const;
  void AddEdgeNames(const Graph& graph);
  Step* Find(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Step*> FindOrCreate(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps a started step from finishing until the holder calls OnProgramDone; false when it is just
  // finishing.
  static bool TryHold(Step& step);
  void StartPrograms(Step& step);
  void RunActivations(Step& step);
  void OnDeadline(int64_t step_id);
  std::string AwaitedEdges(const Rendezvous& rendezvous) const;
  void OnProgramDone(Step& step, const absl::Status& status);
  void Finish(Step& step);
  void Remember(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the step to the pool.
  void Recycle(std::unique_ptr<Step> step) ABSL_LOCKS_EXCLUDED(mutex_);
  std::unique_ptr<Step> Extract(int64_t step_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Threads& threads_;
  TensorSender* const sender_;
  const PlanId id_;
  const int num_edges_;
  const int num_args_;
  const int num_results_;
  std::vector<std::unique_ptr<const Program>> programs_;
  std::deque<ProgramCost> costs_;                     // by program
  absl::flat_hash_map<int, std::string> edge_names_;  // of edges that are received here

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Step>> active_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Step>> pool_ ABSL_GUARDED_BY(mutex_);
  std::deque<int64_t> over_order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, absl::Status> over_
      ABSL_GUARDED_BY(mutex_);  // with the reason of an early cancel
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int num_running_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status LocalWorker::Plan::CheckBindings(const Program& program) const {
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

LocalWorker::Plan::Step* LocalWorker::Plan::Find(int64_t step_id) {
  for (const auto& step : active_) {
    if (step->context.step_id == step_id) return step.get();
  }
  return nullptr;
}

absl::StatusOr<LocalWorker::Plan::Step*> LocalWorker::Plan::FindOrCreate(int64_t step_id) {
  if (Step* step = Find(step_id)) return step;
  const size_t num_unstarted =
      std::count_if(active_.begin(), active_.end(), [](const auto& step) { return !step->started; });
  if (num_unstarted >= kMaxUnstartedSteps) {
    return absl::ResourceExhaustedError(
        absl::StrCat(num_unstarted, " steps have tensors here and have not started"));
  }
  if (pool_.empty()) pool_.push_back(std::make_unique<Step>(*this));
  active_.push_back(std::move(pool_.back()));
  pool_.pop_back();
  Step& step = *active_.back();
  step.context.step_id = step_id;
  if (num_edges_ > 0) {
    step.rendezvous.Reset(step_id);
    step.abort_callback =
        step.cancellation.OnCancel([&step](const absl::Status& reason) { step.rendezvous.Abort(reason); });
  }
  return &step;
}

void LocalWorker::Plan::Run(const RunPartitionCall& call, Done done) {
  absl::Status refused;
  Step* step = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    auto over = over_.find(call.step_id);
    if (!closed_.ok()) {
      refused = closed_;
    } else if (over != over_.end()) {
      refused = !over->second.ok()
                    ? over->second
                    : absl::AlreadyExistsError(absl::StrCat("step ", call.step_id, " has already run"));
    } else if (absl::StatusOr<Step*> found = FindOrCreate(call.step_id); !found.ok()) {
      refused = found.status();
    } else if ((*found)->started) {
      refused = absl::AlreadyExistsError(absl::StrCat("step ", call.step_id, " is already running"));
    } else {
      step = *found;
      step->started = true;
      // One more than there are, so that the step cannot finish while programs are still being started.
      step->programs_left.store(static_cast<int>(programs_.size()) + 1, std::memory_order_release);
      ++num_running_;
    }
  }
  if (step == nullptr) return done(refused);
  step->call = &call;
  step->done = std::move(done);
  StartPrograms(*step);
}

void LocalWorker::Plan::StartPrograms(Step& step) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    for (const Program::Binding& arg : programs_[i]->args()) {
      step.frames[i]->slots[arg.slot] = step.call->args[arg.index];
    }
  }
  if (runs_at_once()) {
    OnProgramDone(step, RunStaticSchedule(*programs_[0], *step.frames[0], step.context, step.call->deadline));
  } else {
    RunActivations(step);
  }
  OnProgramDone(step, absl::OkStatus());
}

void LocalWorker::Plan::RunActivations(Step& step) {
  step.plan = shared_from_this();
  {
    RunScope scope;
    for (const auto& activation : step.activations) {
      activation->Start(step.call->deadline,
                        [this, &step](absl::Status status) { OnProgramDone(step, status); });
    }
  }
  // Most steps are over by now. One that is not cannot end before the caller has let go of it.
  if (step.programs_left.load(std::memory_order_acquire) == 1) return;
  if (step.call->deadline == absl::InfiniteFuture()) return;
  step.timer = threads_.At(step.call->deadline,
                           [plan = shared_from_this(), id = step.context.step_id] { plan->OnDeadline(id); });
}

void LocalWorker::Plan::OnDeadline(int64_t step_id) {
  std::string awaited;
  {
    absl::MutexLock lock(&mutex_);
    if (const Step* step = Find(step_id)) awaited = AwaitedEdges(step->rendezvous);
  }
  Cancel(step_id, absl::DeadlineExceededError(
                      absl::StrCat("step ", step_id, " has run out of time",
                                   awaited.empty() ? "" : absl::StrCat(", waiting for ", awaited))));
}

void LocalWorker::Plan::AddEdgeNames(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op_name() != kRecvOp) continue;
    edge_names_[static_cast<int>(node->attr<int64_t>(kEdgeAttr))] = absl::StrCat(
        "'", node->attr<std::string>("tensor_name"), "' from ", node->attr<std::string>("send_device"));
  }
}

std::string LocalWorker::Plan::AwaitedEdges(const Rendezvous& rendezvous) const {
  constexpr size_t kMaxNames = 5;
  std::vector<std::string> names;
  const std::vector<int> edges = rendezvous.awaited_edges();
  for (const int edge : edges) {
    if (names.size() == kMaxNames) break;
    const auto name = edge_names_.find(edge);
    if (name != edge_names_.end()) names.push_back(name->second);
  }
  if (edges.size() > names.size()) names.push_back(absl::StrCat(edges.size() - names.size(), " more"));
  return absl::StrJoin(names, ", ");
}

std::string LocalWorker::Plan::DescribeWaits() const {
  absl::MutexLock lock(&mutex_);
  std::string lines;
  for (const auto& step : active_) {
    if (!step->started) continue;
    for (size_t i = 0; i < step->activations.size(); ++i) {
      const std::vector<std::string> nodes = step->activations[i]->AwaitedNodes();
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

void LocalWorker::Plan::OnProgramDone(Step& step, const absl::Status& status) {
  if (!status.ok()) {
    {
      absl::MutexLock lock(&step.status_mutex);
      if (step.status.ok()) step.status = status;
    }
    step.cancellation.Cancel(status);
  }
  if (step.programs_left.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(step);
}

void LocalWorker::Plan::Finish(Step& step) {
  const std::shared_ptr<Plan> keep_alive = step.plan ? std::exchange(step.plan, nullptr) : shared_from_this();
  if (step.timer != 0) threads_.Forget(std::exchange(step.timer, 0));
  absl::Status status;
  {
    absl::MutexLock lock(&step.status_mutex);
    status = step.status;
  }
  for (size_t i = 0; i < programs_.size(); ++i) {
    Frame& frame = *step.frames[i];
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
  for (const auto& activation : step.activations) activation->Reset();
  if (num_edges_ > 0) step.rendezvous.Flush();
  Done done = std::move(step.done);
  std::unique_ptr<Step> owned;
  {
    absl::MutexLock lock(&mutex_);
    owned = Extract(step.context.step_id);
    if (num_edges_ > 0) Remember(step.context.step_id);
  }
  Recycle(std::move(owned));
  done(status);
  absl::MutexLock lock(&mutex_);
  --num_running_;
}

void LocalWorker::Plan::Remember(int64_t step_id) {
  if (!over_.emplace(step_id, absl::OkStatus()).second) return;
  over_order_.push_back(step_id);
  if (over_order_.size() <= kRememberedSteps) return;
  over_.erase(over_order_.front());
  over_order_.pop_front();
}

std::unique_ptr<LocalWorker::Plan::Step> LocalWorker::Plan::Extract(int64_t step_id) {
  auto found = std::find_if(active_.begin(), active_.end(),
                            [step_id](const auto& step) { return step->context.step_id == step_id; });
  if (found == active_.end()) return nullptr;
  std::unique_ptr<Step> step = std::move(*found);
  std::swap(*found, active_.back());
  active_.pop_back();
  return step;
}

void LocalWorker::Plan::Recycle(std::unique_ptr<Step> step) {
  step->cancellation.Remove(std::exchange(step->abort_callback, 0));
  step->cancellation.Reset();
  if (num_edges_ > 0) step->rendezvous.Reset(0);
  step->held.clear();
  step->started = false;
  step->call = nullptr;
  {
    absl::MutexLock lock(&step->status_mutex);
    step->status = absl::OkStatus();
  }
  absl::MutexLock lock(&mutex_);
  pool_.push_back(std::move(step));
}

bool LocalWorker::Plan::TryHold(Step& step) {
  int left = step.programs_left.load(std::memory_order_acquire);
  while (left > 0) {
    if (step.programs_left.compare_exchange_weak(left, left + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void LocalWorker::Plan::Cancel(int64_t step_id, const absl::Status& reason) {
  Step* running = nullptr;
  std::unique_ptr<Step> unstarted;
  {
    absl::MutexLock lock(&mutex_);
    Step* step = Find(step_id);
    if (step != nullptr && step->started) {
      if (TryHold(*step)) running = step;
    } else if (num_edges_ > 0 && !over_.contains(step_id)) {
      Remember(step_id);
      over_[step_id] = reason;
      if (step != nullptr) unstarted = Extract(step_id);
    }
  }
  if (unstarted) Recycle(std::move(unstarted));
  if (running != nullptr) OnProgramDone(*running, reason);
}

absl::Status LocalWorker::Plan::Receive(int64_t step_id, int edge, const Tensor& tensor, bool is_dead) {
  Step* step = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    if (over_.contains(step_id)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(step, FindOrCreate(step_id));
    if (!step->started)
      return step->rendezvous.Send(edge, tensor, is_dead);  // nobody waits yet: no callback runs
    if (!TryHold(*step)) return absl::OkStatus();
  }
  const absl::Status status = step->rendezvous.Send(edge, tensor, is_dead);
  OnProgramDone(*step, absl::OkStatus());
  return status;
}

absl::StatusOr<bool> LocalWorker::Plan::Hold(int64_t step_id, int edge, std::shared_ptr<void> held) {
  if (edge < 0 || edge >= num_edges_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor came for edge ", edge, " of a plan with ", num_edges_, " edges"));
  }
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok() || over_.contains(step_id)) return false;
  WEIR_ASSIGN_OR_RETURN(Step * step, FindOrCreate(step_id));
  step->held.push_back(std::move(held));
  return true;
}

void LocalWorker::Plan::Close(const absl::Status& reason) {
  std::vector<int64_t> ids;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = reason;
    for (const auto& step : active_) ids.push_back(step->context.step_id);
  }
  for (int64_t id : ids) Cancel(id, reason);
}

void LocalWorker::Plan::WaitUntilIdle() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int* running) { return *running == 0; }, &num_running_));
}

LocalWorker::LocalWorker(Runtime& runtime, DeviceName task, TensorSender* sender, Threads* threads)
    : runtime_(runtime),
      task_(std::move(task)),
      sender_(sender),
      threads_(threads != nullptr ? *threads : runtime.step_threads()) {}

LocalWorker::~LocalWorker() {
  absl::flat_hash_map<PlanId, std::shared_ptr<Plan>> plans;
  {
    absl::MutexLock lock(&mutex_);
    plans.swap(plans_);
  }
  for (auto& [id, plan] : plans) plan->Close(absl::CancelledError("the worker is shutting down"));
  for (auto& [id, plan] : plans) plan->WaitUntilIdle();
}

absl::StatusOr<std::vector<DeviceAttributes>> LocalWorker::ListDevices(absl::Time) {
  std::vector<DeviceAttributes> result;
  for (const auto& device : runtime_.devices()) result.push_back(device->attributes());
  return result;
}

absl::Status LocalWorker::RegisterPartition(PartitionSpec spec, absl::Time) {
  const std::shared_ptr<SessionState> session = StateOf(spec.session);
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan,
                        Plan::Compile(runtime_, threads_, sender_, spec, session.get()));
  absl::MutexLock lock(&mutex_);
  if (!plans_.emplace(spec.plan, std::move(plan)).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("plan ", spec.plan, " is already registered on ", task_.ToString()));
  }
  return absl::OkStatus();
}

std::shared_ptr<SessionState> LocalWorker::StateOf(SessionId session) {
  if (session == 0) return nullptr;
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<SessionState>& state = sessions_[session];
  if (state == nullptr) state = std::make_shared<SessionState>();
  return state;
}

void LocalWorker::EndSession(SessionId session) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(session);
}

std::shared_ptr<LocalWorker::Plan> LocalWorker::FindPlan(PlanId id) const {
  absl::MutexLock lock(&mutex_);
  auto found = plans_.find(id);
  return found == plans_.end() ? nullptr : found->second;
}

void LocalWorker::RunPartition(const RunPartitionCall& call, Done done) {
  const std::shared_ptr<Plan> plan = FindPlan(call.plan);
  if (!plan) {
    return done(
        absl::NotFoundError(absl::StrCat("plan ", call.plan, " is not registered on ", task_.ToString(),
                                         ": the task has restarted or dropped it")));
  }
  plan->Run(call, std::move(done));
}

void LocalWorker::CancelStep(PlanId plan_id, int64_t step_id, const absl::Status& reason) {
  const std::shared_ptr<Plan> plan = FindPlan(plan_id);
  if (!plan) return;
  RunScope scope;
  plan->Cancel(step_id, reason);
}

void LocalWorker::DeregisterPartition(PlanId plan_id) {
  std::shared_ptr<Plan> plan;
  {
    absl::MutexLock lock(&mutex_);
    auto found = plans_.find(plan_id);
    if (found == plans_.end()) return;
    plan = std::move(found->second);
    plans_.erase(found);
  }
  RunScope scope;
  plan->Close(absl::CancelledError(absl::StrCat("plan ", plan_id, " was dropped")));
}

absl::Status LocalWorker::ResetContainers(absl::Span<const std::string> containers, absl::Time) {
  for (const auto& device : runtime_.devices()) device->resources().ResetContainers(containers);
  return absl::OkStatus();
}

absl::Status LocalWorker::Receive(PlanId plan_id, int64_t step_id, int edge, const Tensor& tensor,
                                  bool is_dead) {
  const std::shared_ptr<Plan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  RunScope scope;
  return plan->Receive(step_id, edge, tensor, is_dead);
}

absl::StatusOr<bool> LocalWorker::Hold(PlanId plan_id, int64_t step_id, int edge,
                                       std::shared_ptr<void> held) {
  const std::shared_ptr<Plan> plan = FindPlan(plan_id);
  if (!plan)
    return absl::NotFoundError(absl::StrCat("plan ", plan_id, " is not registered on ", task_.ToString()));
  return plan->Hold(step_id, edge, std::move(held));
}

int LocalWorker::num_plans() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(plans_.size());
}

int LocalWorker::num_sessions() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(sessions_.size());
}

std::string LocalWorker::DescribeWaits() const {
  absl::MutexLock lock(&mutex_);
  std::string lines;
  for (const auto& [id, plan] : plans_) lines += plan->DescribeWaits();
  return lines;
}

int LocalWorker::num_running_steps() const {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (const auto& [id, plan] : plans_) count += plan->num_running();
  return count;
}

}  // namespace weir
