#include "session/step_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "graph/rewrite/prune.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "placer/partitioner.h"
#include "placer/report.h"

namespace weir {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
// About what waking a sleeping thread costs: a step that ends sooner is not slept for.
constexpr absl::Duration kSpin = absl::Microseconds(20);

PlanId RandomPlanId() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<StepPlan>> StepPlan::Compile(const Graph& graph,
                                                            const StepSignature& signature,
                                                            absl::Span<const WorkerDevices> workers,
                                                            const StepPlanOptions& options,
                                                            absl::Time deadline) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Graph> pruned,
                        PruneToSignature(graph, signature.feeds, signature.fetches, signature.targets));
  if (options.rewrite) WEIR_RETURN_IF_ERROR(options.rewrite(*pruned));
  std::vector<DeviceName> devices;
  for (const WorkerDevices& worker : workers) {
    devices.insert(devices.end(), worker.devices.begin(), worker.devices.end());
  }
  WEIR_RETURN_IF_ERROR(PlaceGraph(*pruned, devices, options.has_kernel, options.placer));
  WEIR_ASSIGN_OR_RETURN(PartitionedGraph partitioned, PartitionByDevice(*pruned));

  std::unique_ptr<StepPlan> plan(new StepPlan);
  plan->id_ = RandomPlanId();
  plan->num_feeds_ = signature.feeds.size();
  plan->num_fetches_ = signature.fetches.size();
  if (options.want_report) {
    plan->report_ = PlacementReport(*pruned, partitioned);
    for (const auto& node : pruned->nodes())
      plan->placement_.emplace_back(node->name(), node->assigned_device());
  }
  for (const WorkerDevices& worker : workers) {
    PartitionSpec spec;
    for (Partition& partition : partitioned.partitions) {
      if (partition.graph && partition.device.IsSameTask(worker.worker->task())) {
        spec.graphs.push_back(std::move(partition.graph));
      }
    }
    if (spec.graphs.empty()) continue;
    Part part = {worker.worker, Renumber(spec.graphs, kArgOp), Renumber(spec.graphs, kRetvalOp)};
    spec.plan = plan->id_;
    spec.session = options.session;
    spec.num_edges = partitioned.edges.size();
    spec.num_args = part.feeds.size();
    spec.num_results = part.fetches.size();
    if (absl::Status status = worker.worker->RegisterPartition(std::move(spec), deadline); !status.ok()) {
      return Prefix(*worker.worker, status);  // the plan's destructor drops what was registered before
    }
    plan->parts_.push_back(std::move(part));
  }
  return plan;
}

StepPlan::~StepPlan() {
  for (const Part& part : parts_) part.worker->DeregisterPartition(id_);
}

// One step while it runs: a call for every worker, and the count of those that have not answered.
class StepPlan::RunningStep {
 public:
  RunningStep(StepPlan& plan, int64_t step_id, absl::Time deadline)
      : plan_(plan),
        step_id_(step_id),
        deadline_(deadline),
        calls_(plan.parts_.size()),
        num_left_(static_cast<int>(plan.parts_.size())) {}

  void Start(absl::Span<const Tensor> feeds) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Part& part = plan_.parts_[i];
      Call& call = calls_[i];
      for (int feed : part.feeds) call.args.push_back(feeds[feed]);
      call.results.resize(part.fetches.size());
      call.request = {plan_.id_, step_id_, deadline_, call.args, absl::MakeSpan(call.results)};
    }
    // The last part is this task's own when it has one (the session lists it last): it runs on this thread,
    // so the others must have been asked before.
    for (size_t i = 0; i < calls_.size(); ++i) {
      plan_.parts_[i].worker->RunPartition(calls_[i].request,
                                           [this, i](absl::Status status) { OnDone(i, std::move(status)); });
    }
  }

  absl::Status Wait() {
    if (SpinUntilDone()) return status();
    while (!WaitFor(std::min(kPatience, deadline_ - absl::Now()))) {
      if (absl::Now() >= deadline_) {
        Cancel(absl::DeadlineExceededError(
            absl::StrCat("step ", step_id_, " has run out of time; not finished: ", Awaited())));
        // Arguments and results belong to the step until every worker has let go, so this wait has no end of
        // its own: a worker that is lost is given up by its RunPartition.
        while (!WaitFor(kPatience)) Report("was cancelled, but is still waited for");
        break;
      }
      Report("is waited for");
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

 private:
  struct Call {
    RunPartitionCall request;
    absl::InlinedVector<Tensor, 4> args;
    absl::InlinedVector<Tensor, 4> results;
    bool is_done = false;
  };

  void OnDone(size_t index, absl::Status status) {
    if (!status.ok()) Cancel(Prefix(*plan_.parts_[index].worker, status));
    absl::MutexLock lock(&mutex_);
    calls_[index].is_done = true;
    // Under the lock: the waiter destroys this object once it has seen 0 and taken the lock.
    num_left_.fetch_sub(1, std::memory_order_release);
  }

  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  bool SpinUntilDone() {
    if (num_left_.load(std::memory_order_acquire) == 0) return true;
    const absl::Time end = absl::Now() + kSpin;
    while (absl::Now() < end) {
      if (num_left_.load(std::memory_order_acquire) == 0) return true;
    }
    return false;
  }

  bool WaitFor(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(
                                       +[](std::atomic<int>* left) { return left->load() == 0; }, &num_left_),
                                   timeout);
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
    const std::string left = deadline_ == absl::InfiniteFuture()
                                 ? "no time limit"
                                 : absl::StrCat(absl::FormatDuration(deadline_ - absl::Now()), " left");
    const std::string line =
        absl::StrCat("weir: step ", step_id_, ": ", Awaited(), " ", state, " (", left, ")\n");
    std::fputs(line.c_str(), stderr);
  }

  StepPlan& plan_;
  const int64_t step_id_;
  const absl::Time deadline_;
  absl::InlinedVector<Call, 2> calls_;
  std::atomic<int> num_left_;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status StepPlan::Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches, absl::Time deadline) {
  if (static_cast<int>(feeds.size()) != num_feeds_ || static_cast<int>(fetches.size()) != num_fetches_) {
    return absl::InvalidArgumentError(absl::StrCat("the step takes ", num_feeds_, " feeds and ", num_fetches_,
                                                   " fetches, got ", feeds.size(), " and ", fetches.size()));
  }
  const int64_t step_id = next_step_.fetch_add(1, std::memory_order_relaxed);
  RunningStep step(*this, step_id, deadline);
  {
    absl::MutexLock lock(&mutex_);
    running_.push_back(step_id);
  }
  step.Start(feeds);
  const absl::Status status = step.Wait();
  {
    absl::MutexLock lock(&mutex_);
    running_.erase(std::find(running_.begin(), running_.end(), step_id));
  }
  if (status.ok()) step.TakeResults(fetches);
  return status;
}

void StepPlan::CancelAll(const absl::Status& reason) {
  std::vector<int64_t> running;
  {
    absl::MutexLock lock(&mutex_);
    running = running_;
  }
  for (int64_t step_id : running) {
    for (const Part& part : parts_) part.worker->CancelStep(id_, step_id, reason);
  }
}

}  // namespace weir
