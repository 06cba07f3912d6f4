#include "session/step_plan.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/threads.h"
#include "placer/partitioner.h"
#include "placer/report.h"
#include "session/call_together.h"

namespace weir {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
// About what waking a sleeping thread costs: a step that ends sooner is not slept for.
constexpr absl::Duration kSpin = absl::Microseconds(20);

absl::Status Prefix(const Worker& worker, const absl::Status& status) {
  if (absl::StrContains(status.message(), worker.task().ToString())) return status;
  absl::Status prefixed(status.code(), absl::StrCat(worker.task().ToString(), ": ", status.message()));
  status.ForEachPayload(
      [&prefixed](absl::string_view key, const absl::Cord& value) { prefixed.SetPayload(key, value); });
  return prefixed;
}

// Renumbers a worker's _Arg (or _Retval) nodes from 0 and returns the plan-wide index of each.
std::vector<int> Renumber(absl::Span<const std::unique_ptr<Graph>> graphs, absl::string_view op) {
  std::vector<int> global;
  for (const auto& graph : graphs) {
    for (const auto& node : graph->nodes()) {
      if (node->op_name() != op) continue;
      const int64_t local = global.size();
      global.push_back(static_cast<int>(node->attr<int64_t>("index")));
      graph->SetAttr(node.get(), "index", local);
    }
  }
  return global;
}

// "on /job:.../device:GPU:0 these compute on the host, for there is no GPU kernel: Softplus (3)".
void AddRemarksOnHost(const Graph& placed, const StepPlanOptions& options,
                      std::vector<std::string>* remarks) {
  if (!options.computes_on_host) return;
  std::map<std::string, std::map<std::string, int>> ops;
  std::map<std::string, std::string> types;
  for (const auto& node : placed.nodes()) {
    const DeviceName& device = node->assigned_device();
    if (!options.computes_on_host(*node, *device.type)) continue;
    ++ops[device.ToString()][node->op_name()];
    types[device.ToString()] = *device.type;
  }
  for (const auto& [device, counts] : ops) {
    remarks->push_back(
        absl::StrCat("on ", device, " these compute on the host, for there is no ", types[device],
                     " kernel: ", absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
                       absl::StrAppend(out, entry.first, " (", entry.second, ")");
                     })));
  }
}

}  // namespace

absl::StatusOr<PartitionedGraph> StepPlan::Cut(std::unique_ptr<Graph>& pruned,
                                               absl::Span<const WorkerDevices> workers,
                                               const StepPlanOptions& options,
                                               std::vector<std::string>* remarks) {
  if (options.rewrite) WEIR_RETURN_IF_ERROR(options.rewrite(*pruned));
  std::vector<DeviceName> devices;
  for (const WorkerDevices& worker : workers) {
    devices.insert(devices.end(), worker.devices.begin(), worker.devices.end());
  }
  WEIR_RETURN_IF_ERROR(PlaceGraph(*pruned, devices, options.has_kernel, options.placer, remarks));
  if (options.rewrite_placed) WEIR_RETURN_IF_ERROR(options.rewrite_placed(pruned));
  if (options.late_exchange) WEIR_RETURN_IF_ERROR(PlaceLate(*pruned, *options.late_exchange));
  return PartitionByDevice(*pruned);
}

absl::StatusOr<std::shared_ptr<StepPlan>> StepPlan::Compile(std::unique_ptr<Graph> pruned, int num_feeds,
                                                            int num_fetches,
                                                            absl::Span<const WorkerDevices> workers,
                                                            const StepPlanOptions& options,
                                                            absl::Time deadline) {
  FeedDependencies dependencies;
  if (options.late_exchange) dependencies = FeedDependencies(*pruned, num_feeds, num_fetches);
  std::vector<std::string> remarks;
  WEIR_ASSIGN_OR_RETURN(PartitionedGraph partitioned,
                        Cut(pruned, workers, options, options.want_report ? &remarks : nullptr));

  std::shared_ptr<StepPlan> plan(new StepPlan(*options.environment));
  plan->id_ = options.environment->Random() | 1;
  plan->num_feeds_ = num_feeds;
  plan->num_fetches_ = num_fetches;
  plan->resources_ = KindsOfPlacedResources(*pruned);
  if (options.want_report) {
    AddRemarksOnHost(*pruned, options, &remarks);
    plan->report_ = ReportPlacement(*pruned, partitioned, remarks);
    for (const auto& node : pruned->nodes())
      plan->placement_.emplace_back(node->name(), node->assigned_device());
  }
  for (const WorkerDevices& worker : workers) {
    StepOwners* const owners = worker.worker->owners();
    if (owners == nullptr) continue;
    owners->Add(plan->id_, plan);
    plan->owners_.push_back(owners);
  }
  const int num_edges = static_cast<int>(partitioned.edges.size());
  if (options.late_exchange) {
    plan->is_for_partial_runs_ = true;
    plan->dependencies_ = std::move(dependencies);
    plan->NumberLate(partitioned, *options.late_exchange);
  }
  std::vector<PartitionSpec> specs;
  for (const WorkerDevices& worker : workers) {
    PartitionSpec spec;
    for (Partition& partition : partitioned.partitions) {
      if (partition.graph && partition.device.IsSameTask(worker.worker->task())) {
        spec.graphs.push_back(std::move(partition.graph));
      }
    }
    if (spec.graphs.empty()) continue;
    Part part = {worker.worker, {}, {}};
    spec.plan = plan->id_;
    spec.session = options.session;
    spec.first_device = worker.first_device;
    spec.num_edges = num_edges;
    if (!options.late_exchange) {
      part.feeds = Renumber(spec.graphs, kArgOp);
      part.fetches = Renumber(spec.graphs, kRetvalOp);
    } else if (options.late_exchange->device.IsSameTask(worker.worker->task())) {
      plan->partial_worker_ = worker.worker;
      spec.num_late_args = num_feeds;
      spec.num_late_results = num_fetches;
      spec.num_edges += num_feeds + num_fetches;
    }
    spec.num_args = part.feeds.size();
    spec.num_results = part.fetches.size();
    // First: the plan's destructor also drops what a worker registers whose answer is lost.
    plan->parts_.push_back(std::move(part));
    specs.push_back(std::move(spec));
  }
  WEIR_RETURN_IF_ERROR(CallTogether(*options.environment, specs.size(), [&](size_t i) {
    Worker& worker = *plan->parts_[i].worker;
    const absl::Status status = worker.RegisterPartition(std::move(specs[i]), deadline);
    return status.ok() ? status : Prefix(worker, status);
  }));
  return plan;
}

// At the caller's device, so that only the worker of this process is fed and fetched from: what others need,
// or compute, crosses like any other tensor. A resource handle cannot cross.
absl::Status StepPlan::PlaceLate(Graph& placed, const StepPlanOptions::LateExchange& late) {
  for (const auto& node : placed.nodes()) {
    const bool is_arg = node->op_name() == kArgOp;
    if (!is_arg && node->op_name() != kRetvalOp) continue;
    const DType dtype = is_arg ? node->output_type(0) : node->input(0).dtype();
    if (dtype != DType::kResource) {
      placed.SetAssignedDevice(node.get(), late.device);
    } else if (!node->assigned_device().IsSameTask(late.device)) {
      return absl::UnimplementedError(absl::StrCat(
          "a partial run cannot ", is_arg ? "feed" : "fetch", " the resource handle ", node->Describe(),
          " on ", node->assigned_device().ToString(), ": it would cross to ", late.device.ToString()));
    }
  }
  return absl::OkStatus();
}

// The late edges follow those between devices: feeds, then fetches.
void StepPlan::NumberLate(PartitionedGraph& partitioned, const StepPlanOptions::LateExchange& late) {
  const int64_t num_edges = partitioned.edges.size();
  for (Partition& partition : partitioned.partitions) {
    if (!partition.graph) continue;
    for (const auto& node : partition.graph->nodes()) {
      const bool is_arg = node->op_name() == kArgOp;
      if (!is_arg && node->op_name() != kRetvalOp) continue;
      const int64_t index = node->attr<int64_t>("index");
      const int64_t first = is_arg ? num_edges : num_edges + num_feeds_;
      partition.graph->SetAttr(node.get(), kEdgeAttr, first + index);
      if (is_arg) partition.graph->SetAttr(node.get(), kFeedNameAttr, late.feeds[index]);
    }
  }
}

StepPlan::~StepPlan() { Close(absl::CancelledError("the step was dropped")); }

// One step while it runs: a call for every worker, and the count of those that have not answered.
class StepPlan::RunningStep {
 public:
  RunningStep(StepPlan& plan, absl::Time deadline, StepTrace* trace = nullptr,
              const LogicalStep& logical_step = {}, bool wants_applied_updates = false)
      : plan_(plan),
        wants_applied_updates_(wants_applied_updates),
        deadline_(deadline),
        trace_(trace),
        logical_step_(logical_step),
        calls_(plan.parts_.size()),
        num_left_(static_cast<int>(plan.parts_.size())) {}

  void Start(absl::Span<const Tensor> feeds) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Part& part = plan_.parts_[i];
      Call& call = calls_[i];
      for (int feed : part.feeds) call.args.push_back(feeds[feed]);
      call.results.resize(part.fetches.size());
      call.request = {.plan = plan_.id_,
                      .step_id = step_id_,
                      .over_below = over_below_,
                      .logical_step = logical_step_,
                      .deadline = deadline_,
                      .args = call.args,
                      .results = absl::MakeSpan(call.results),
                      .on_late_result = nullptr,
                      .applied_updates = wants_applied_updates_ && part.worker->owners() == nullptr
                                             ? &call.applied_updates
                                             : nullptr,
                      .trace = trace_};
      if (part.worker == plan_.partial_worker_) call.request.on_late_result = std::move(on_result_);
    }
    // The last part is this task's own when it has one (the session lists it last): it runs on this thread,
    // so the others must have been asked before.
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!status().ok()) {
        LetGoOf(&calls_[i]);  // who was asked before has failed
        continue;
      }
      plan_.parts_[i].worker->RunPartition(calls_[i].request,
                                           [this, i](absl::Status status) { OnDone(i, std::move(status)); });
      // A cancellation that came before the call has not ended it.
      if (const absl::Status reason = ReasonToEnd(calls_[i]); !reason.ok()) {
        plan_.parts_[i].worker->CancelStep(plan_.id_, step_id_, reason);
      }
    }
  }

  absl::Status Wait() {
    if (SpinUntilDone()) return status();
    while (!WaitUntil(std::min(plan_.environment_.Now() + kPatience, deadline_))) {
      if (plan_.environment_.Now() >= deadline_) {
        Cancel(absl::DeadlineExceededError(
            absl::StrCat("step ", step_id_, " has run out of time; not finished: ", Awaited())));
        // Arguments and results belong to the step until every worker has let go, so this wait has no end of
        // its own: a worker that is lost is given up by its RunPartition.
        while (!WaitUntil(plan_.environment_.Now() + kPatience)) {
          Report("was cancelled, and has not ended yet on");
        }
        break;
      }
      Report("has not ended yet on");
    }
    return status();
  }

  void Cancel(const absl::Status& reason) {
    {
      absl::MutexLock lock(&mutex_);
      if (status_.ok()) status_ = reason;
      if (cancelled_) return;
      cancelled_ = true;
    }
    for (const Part& part : plan_.parts_) part.worker->CancelStep(plan_.id_, step_id_, reason);
  }

  void TakeResults(absl::Span<Tensor> fetches) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (size_t k = 0; k < calls_[i].results.size(); ++k) {
        fetches[plan_.parts_[i].fetches[k]] = std::move(calls_[i].results[k]);
      }
    }
  }

  std::string AppliedUpdates() const {
    std::string all;
    for (const Call& call : calls_) all += call.applied_updates;
    return all;
  }

  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  // Called once every worker has answered. Before Start.
  void SetOnEnd(std::function<void()> on_end) { on_end_ = std::move(on_end); }

  // Of a partial run. Before Start.
  void SetOnResult(OnResult on_result) { on_result_ = std::move(on_result); }

  // Before Start.
  void SetId(int64_t step_id, int64_t over_below) {
    step_id_ = step_id;
    over_below_ = over_below;
  }
  int64_t step_id() const { return step_id_; }
  bool has_no_parts() const { return calls_.empty(); }

  // Keeps the step from ending, as a part that has not answered does, until LetGo. False when it is over.
  bool TryHold() {
    int left = num_left_.load(std::memory_order_acquire);
    while (left > 0) {
      if (num_left_.compare_exchange_weak(left, left + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  void LetGo() { LetGoOf(nullptr); }

 private:
  struct Call {
    RunPartitionCall request;
    absl::InlinedVector<Tensor, 4> args;
    absl::InlinedVector<Tensor, 4> results;
    std::string applied_updates;
    bool is_done = false;
  };

  void OnDone(size_t index, absl::Status status) {
    if (!status.ok()) Cancel(Prefix(*plan_.parts_[index].worker, status));
    LetGoOf(&calls_[index]);
  }

  void LetGoOf(Call* call) {
    std::function<void()> on_end;
    {
      absl::MutexLock lock(&mutex_);
      if (call != nullptr) call->is_done = true;
      // Under the lock: the waiter destroys this object once it has seen 0 and taken the lock.
      if (num_left_.fetch_sub(1, std::memory_order_release) == 1) on_end = std::move(on_end_);
    }
    if (on_end) on_end();
  }

  // Not OK for a part that has not answered although the step has failed.
  absl::Status ReasonToEnd(const Call& call) {
    absl::MutexLock lock(&mutex_);
    return call.is_done ? absl::OkStatus() : status_;
  }

  bool SpinUntilDone() {
    if (num_left_.load(std::memory_order_acquire) == 0) return true;
    if (plan_.environment_.is_simulated()) return false;
    const absl::Time end = plan_.environment_.Now() + kSpin;
    while (plan_.environment_.Now() < end) {
      if (num_left_.load(std::memory_order_acquire) == 0) return true;
      sched_yield();  // who is to end the step may wait for this core
    }
    return false;
  }

  bool WaitUntil(absl::Time time) {
    absl::MutexLock lock(&mutex_);
    return plan_.environment_.Await(
        mutex_,
        absl::Condition(
            +[](std::atomic<int>* left) { return left->load() == 0; }, &num_left_),
        time);
  }

  std::string Awaited() {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> tasks;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i].is_done) tasks.push_back(plan_.parts_[i].worker->task().ToString());
    }
    return absl::StrJoin(tasks, ", ");
  }

  void Report(absl::string_view state) {
    const std::string left =
        deadline_ == absl::InfiniteFuture()
            ? "no time limit"
            : absl::StrCat(
                  absl::FormatDuration(absl::Trunc(deadline_ - plan_.environment_.Now(), absl::Seconds(1))),
                  " left");
    const std::string line =
        absl::StrCat("weir: step ", step_id_, " ", state, " ", Awaited(), " (", left, ")\n");
    std::fputs(line.c_str(), stderr);
  }

  StepPlan& plan_;
  const bool wants_applied_updates_;
  int64_t step_id_ = 0;
  int64_t over_below_ = 0;
  const absl::Time deadline_;
  StepTrace* const trace_;
  const LogicalStep logical_step_;
  absl::InlinedVector<Call, 2> calls_;
  std::atomic<int> num_left_;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_end_;
  OnResult on_result_;
};

// Keeps itself until it has ended, and its plan.
class StepPlan::StartedStep final : public Step, public std::enable_shared_from_this<StartedStep> {
 public:
  StartedStep(std::shared_ptr<StepPlan> plan, absl::Time deadline, const LogicalStep& logical_step = {},
              std::shared_ptr<StepTrace> trace = nullptr)
      : plan_(std::move(plan)),
        trace_(std::move(trace)),
        running_(*plan_, deadline, trace_.get(), logical_step) {}

  absl::Status Enter() { return plan_->Enter(running_); }
  int64_t step_id() const { return running_.step_id(); }

  void Start(absl::Span<const Tensor> feeds) {
    if (running_.has_no_parts()) return End();
    running_.SetOnEnd([self = shared_from_this()] { self->End(); });
    running_.Start(feeds);
  }

  void SetOnResult(OnResult on_result) { running_.SetOnResult(std::move(on_result)); }
  void Refuse(const absl::Status& status) { Settle(status); }

  void OnDone(Done done) override {
    if (!done) return;
    {
      absl::MutexLock lock(&mutex_);
      if (!results_) return done_.push_back(std::move(done));
    }
    CallUnnested([self = shared_from_this(), done = std::move(done)] { done(*self->results_); });
  }

  Results Await() override {
    if (RunScope::IsInside() && !HasResults()) {
      return absl::FailedPreconditionError(
          "a thread that is running a step must not wait for another: use OnDone");
    }
    if (!HasResults()) (void)running_.Wait();
    absl::MutexLock lock(&mutex_);
    plan_->environment_.Await(
        mutex_, absl::Condition(
                    +[](std::optional<Results>* results) { return results->has_value(); }, &results_));
    return *results_;
  }

  void Cancel(const absl::Status& reason) override {
    if (!HasResults()) running_.Cancel(reason.ok() ? absl::CancelledError("the step was cancelled") : reason);
  }

 private:
  bool HasResults() {
    absl::MutexLock lock(&mutex_);
    return results_.has_value();
  }

  void End() {
    const absl::Status status = plan_->Leave(running_, running_.status());
    if (!status.ok()) return Settle(status);
    std::vector<Tensor> fetches(plan_->is_for_partial_runs() ? 0 : plan_->num_fetches_);
    running_.TakeResults(absl::MakeSpan(fetches));
    Settle(std::move(fetches));
  }

  void Settle(Results results) {
    std::vector<Done> done;
    {
      absl::MutexLock lock(&mutex_);
      results_ = std::move(results);
      done.swap(done_);
    }
    for (Done& call : done) {
      CallUnnested([self = shared_from_this(), call = std::move(call)] { call(*self->results_); });
    }
  }

  const std::shared_ptr<StepPlan> plan_;
  const std::shared_ptr<StepTrace> trace_;
  RunningStep running_;
  absl::Mutex mutex_;
  std::optional<Results> results_;  // guarded by mutex_ until it is set; then it stays
  std::vector<Done> done_ ABSL_GUARDED_BY(mutex_);
};

absl::Status StepPlan::CheckCounts(size_t num_feeds, size_t num_fetches) const {
  if (is_for_partial_runs()) {
    return absl::FailedPreconditionError("this step was compiled for partial runs: use StartPartial");
  }
  if (static_cast<int>(num_feeds) == num_feeds_ && static_cast<int>(num_fetches) == num_fetches_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the step takes ", num_feeds_, " feeds and ", num_fetches_,
                                                 " fetches, got ", num_feeds, " and ", num_fetches));
}

absl::Status StepPlan::Enter(RunningStep& step) {
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok()) return closed_;
  step.SetId(first_running_ + static_cast<int64_t>(running_.size()), first_running_);
  running_.push_back(&step);
  return absl::OkStatus();
}

absl::Status StepPlan::Leave(const RunningStep& step, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  running_[step.step_id() - first_running_] = nullptr;
  for (; !running_.empty() && running_.front() == nullptr; ++first_running_) running_.pop_front();
  return absl::IsNotFound(status) && !closed_.ok() ? closed_ : status;
}

absl::Status StepPlan::Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches, absl::Time deadline,
                           StepTrace* trace, const LogicalStep& logical_step, std::string* applied_updates) {
  WEIR_RETURN_IF_ERROR(CheckCounts(feeds.size(), fetches.size()));
  if (RunScope::IsInside()) {
    return absl::FailedPreconditionError(
        "a thread that is running a step must not wait for another: use Start");
  }
  RunningStep step(*this, deadline, trace, logical_step, applied_updates != nullptr);
  WEIR_RETURN_IF_ERROR(Enter(step));
  step.Start(feeds);
  const absl::Status status = Leave(step, step.Wait());
  if (status.ok()) step.TakeResults(fetches);
  if (status.ok() && applied_updates != nullptr) *applied_updates = step.AppliedUpdates();
  return status;
}

std::shared_ptr<Step> StepPlan::Start(absl::Span<const Tensor> feeds, absl::Time deadline,
                                      const LogicalStep& logical_step, std::shared_ptr<StepTrace> trace) {
  auto step = std::make_shared<StartedStep>(shared_from_this(), deadline, logical_step, std::move(trace));
  absl::Status status = CheckCounts(feeds.size(), num_fetches_);
  if (status.ok()) status = step->Enter();
  if (status.ok()) {
    step->Start(feeds);
  } else {
    step->Refuse(status);
  }
  return step;
}

StepPlan::StartedPartial StepPlan::StartPartial(OnResult on_result, absl::Time deadline) {
  auto step = std::make_shared<StartedStep>(shared_from_this(), deadline);
  step->SetOnResult(std::move(on_result));
  absl::Status status = is_for_partial_runs()
                            ? step->Enter()
                            : absl::FailedPreconditionError("this step was not compiled for partial runs");
  const int64_t step_id = step->step_id();
  if (status.ok()) {
    step->Start({});
  } else {
    step->Refuse(status);
  }
  return {step_id, step};
}

absl::Status StepPlan::FeedStep(int64_t step_id, int feed, const Tensor& tensor) {
  if (!is_for_partial_runs()) {
    return absl::FailedPreconditionError("this step was not compiled for partial runs");
  }
  return partial_worker_->FeedStep(id_, step_id, feed, tensor);
}

bool StepPlan::HasPartOn(const DeviceName& task) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const Part& part) { return part.worker->task().IsSameTask(task); });
}

void StepPlan::FailStep(int64_t step_id, const DeviceName& by, const absl::Status& reason) {
  if (!HasPartOn(by) || reason.ok()) return;
  RunningStep* step = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const int64_t index = step_id - first_running_;
    if (index < 0 || index >= static_cast<int64_t>(running_.size())) return;
    step = running_[index];
    if (step == nullptr || !step->TryHold()) return;
  }
  step->Cancel(reason);
  step->LetGo();
}

void StepPlan::FailRunningSteps(const DeviceName* task, const absl::Status& reason) {
  if (reason.ok()) return;
  std::vector<RunningStep*> held;
  {
    // No step runs before all parts are there.
    absl::MutexLock lock(&mutex_);
    if (running_.empty() || (task != nullptr && !HasPartOn(*task))) return;
    for (RunningStep* const step : running_) {
      if (step != nullptr && step->TryHold()) held.push_back(step);
    }
  }
  for (RunningStep* const step : held) {
    step->Cancel(reason);
    step->LetGo();
  }
}

void StepPlan::Close(const absl::Status& reason) {
  std::vector<int64_t> running;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
    closed_ = reason;
    for (const RunningStep* step : running_) {
      if (step != nullptr) running.push_back(step->step_id());
    }
  }
  for (StepOwners* const owners : owners_) owners->Remove(id_);
  for (const Part& part : parts_) {
    for (const int64_t step_id : running) part.worker->CancelStep(id_, step_id, reason);
    part.worker->DeregisterPartition(id_);
  }
}

}  // namespace weir
