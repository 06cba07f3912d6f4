// A compiled step: what one signature of feeds, fetches and targets needs, placed, cut and registered on its
// workers.
//
// Compiled once and run many times. Thread safety: all methods; Run and Start may be called by many threads.
// Borrows the workers; drops its partitions from them when it is closed or destroyed.
//
// A tensor of a step that is lost on its way ends the step, also when the part that has sent it is done: its
// worker tells the plan (step_owners.h).
//
// Progress: a step ends when every worker has answered its RunPartition, which each does by the step's
// deadline (worker.h). Only Run and Step::Await wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "kernels/environment.h"
#include "placer/placer.h"
#include "placer/report.h"
#include "session/feed_dependencies.h"
#include "session/step.h"
#include "session/step_owners.h"
#include "session/worker.h"

namespace weir {

// What a step is compiled for. Outputs and nodes are of the session's graph.
struct StepSignature {
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  int64_t num_forgotten_shapes = 0;  // of the graph at that time (graph/rewrite/prune.h)
};

struct StepPlanOptions {
  KernelAvailability has_kernel;
  PlacerOptions placer;
  std::shared_ptr<const StatePlaces> state_places;  // keeps what `placer` borrows
  std::function<absl::Status(Graph&)> rewrite;      // runs between pruning and placement; may be empty
  // Runs on the placed graph, which it may replace by another one; may be empty.
  std::function<absl::Status(std::unique_ptr<Graph>&)> rewrite_placed;
  bool want_report = false;  // keep the placement report
  // Whether a node that is on such a device computes in the host's memory, because the device has no kernel
  // for it; for the report. May be empty.
  KernelAvailability computes_on_host;
  SessionId session = 0;
  // Set for partial runs: the device, of a worker in this process, at which feeds come in and fetches are
  // taken while a step runs; and the names of the feeds.
  struct LateExchange {
    DeviceName device;
    std::vector<std::string> feeds;
  };
  std::optional<LateExchange> late_exchange;
  Environment* environment = &RealEnvironment();  // borrowed
};

struct PartitionedGraph;  // placer/partitioner.h

class StepPlan final : public StepOwner, public std::enable_shared_from_this<StepPlan> {
 public:
  // `workers`: all of the cluster, with the devices each has.
  struct WorkerDevices {
    Worker* worker;
    std::vector<DeviceName> devices;
    uint64_t first_device = 0;  // PartitionSpec::first_device
  };

  // `pruned`: of PruneToSignature, for a signature of that many feeds and fetches.
  // Possible errors: those of PlaceGraph, PartitionByDevice and Worker::RegisterPartition (with the worker
  // named).
  static absl::StatusOr<std::shared_ptr<StepPlan>> Compile(std::unique_ptr<Graph> pruned, int num_feeds,
                                                           int num_fetches,
                                                           absl::Span<const WorkerDevices> workers,
                                                           const StepPlanOptions& options,
                                                           absl::Time deadline);
  ~StepPlan() override;

  // What Compile gives its workers: the graph rewritten, placed and cut. `pruned` becomes the placed graph.
  // `remarks` may be null (placer.h).
  static absl::StatusOr<PartitionedGraph> Cut(std::unique_ptr<Graph>& pruned,
                                              absl::Span<const WorkerDevices> workers,
                                              const StepPlanOptions& options,
                                              std::vector<std::string>* remarks = nullptr);

  // Runs one step. feeds and fetches are in the signature's order; fetches are set on OK.
  // Waits for every worker. The first error cancels the step everywhere and is returned. At `deadline` the
  // step is cancelled: DeadlineExceeded names the workers that had not finished. After 10 s of waiting a line
  // on stderr says who is awaited and how long is left.
  // With a trace, what the devices of this process did is added to it. applied_updates becomes what other
  // processes' workers say that they had applied (RunPartitionCall).
  absl::Status Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches, absl::Time deadline,
                   StepTrace* trace = nullptr, const LogicalStep& logical_step = {},
                   std::string* applied_updates = nullptr);

  // Starts one step, which keeps the plan, and the trace. May compute on this thread before it returns.
  // Errors are the step's.
  std::shared_ptr<Step> Start(absl::Span<const Tensor> feeds, absl::Time deadline,
                              const LogicalStep& logical_step = {},
                              std::shared_ptr<StepTrace> trace = nullptr);

  // Of a plan for partial runs: starts one step, to which FeedStep gives what StartPartial names by
  // `step_id`. `on_result` is told of each fetch once, one at a time, and of all before a step ends without
  // an error. The step itself ends with no results.
  struct StartedPartial {
    int64_t step_id;
    std::shared_ptr<Step> step;
  };
  using OnResult = std::function<void(int fetch, const Tensor& tensor, bool is_dead)>;
  StartedPartial StartPartial(OnResult on_result, absl::Time deadline);
  // Each feed once. A step that is over drops it.
  absl::Status FeedStep(int64_t step_id, int feed, const Tensor& tensor);
  bool is_for_partial_runs() const { return is_for_partial_runs_; }
  Environment& environment() const { return environment_; }
  const FeedDependencies& dependencies() const { return dependencies_; }

  // Cancels all running steps, refuses further ones and drops the partitions.
  void Close(const absl::Status& reason);

  void FailStep(int64_t step_id, const DeviceName& by, const absl::Status& reason) override;
  void FailRunningSteps(const DeviceName* task, const absl::Status& reason) override;

  // Empty without StepPlanOptions::want_report.
  const PlacementReport& placement_report() const { return report_; }
  int num_workers() const { return static_cast<int>(parts_.size()); }
  // The resources that its nodes give.
  const KindsOfResources& resources() const { return resources_; }
  // Nodes by device after placement, for summaries that show devices.
  const std::vector<std::pair<std::string, DeviceName>>& placement() const { return placement_; }

 private:
  struct Part {
    Worker* worker;
    std::vector<int> feeds;    // argument i of the worker is this feed
    std::vector<int> fetches;  // result i of the worker is this fetch
  };
  class RunningStep;
  class StartedStep;

  explicit StepPlan(Environment& environment) : environment_(environment) {}
  // Where the feeds and fetches of partial runs are.
  static absl::Status PlaceLate(Graph& placed, const StepPlanOptions::LateExchange& late);
  void NumberLate(PartitionedGraph& partitioned, const StepPlanOptions::LateExchange& late);
  bool HasPartOn(const DeviceName& task) const;
  absl::Status CheckCounts(size_t num_feeds, size_t num_fetches) const;
  // Closed: its reason, else the step has its id, and is known to Close and FailStep until it leaves.
  absl::Status Enter(RunningStep& step);
  // The step's outcome: a step that a closed plan's workers did not know failed because of that.
  absl::Status Leave(const RunningStep& step, const absl::Status& status);

  Environment& environment_;
  PlanId id_ = 0;
  std::vector<Part> parts_;
  std::vector<StepOwners*> owners_;  // that know the plan
  // The steps from first_running_ on; null: over. The first one runs.
  std::deque<RunningStep*> running_ ABSL_GUARDED_BY(mutex_);
  int64_t first_running_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex mutex_;
  int num_feeds_ = 0;
  int num_fetches_ = 0;
  bool is_for_partial_runs_ = false;
  Worker* partial_worker_ = nullptr;  // of partial runs: has the feeds and fetches, if there are any
  FeedDependencies dependencies_;     // of partial runs
  PlacementReport report_;
  KindsOfResources resources_;
  std::vector<std::pair<std::string, DeviceName>> placement_;
};

}  // namespace weir
