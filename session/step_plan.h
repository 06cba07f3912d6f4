// A compiled step: what one signature of feeds, fetches and targets needs, placed, cut and registered on its
// workers.
//
// Compiled once and run many times. Thread safety: fixed after Compile; Run may be called by many threads.
// Borrows the workers; drops its partitions from them when destroyed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "placer/placer.h"
#include "session/worker.h"

namespace weir {

// What a step is compiled for. Outputs and nodes are of the session's graph.
struct StepSignature {
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
};

struct StepPlanOptions {
  KernelAvailability has_kernel;
  PlacerOptions placer;
  std::function<absl::Status(Graph&)> rewrite;  // runs between pruning and placement; may be empty
  bool want_report = false;                     // keep the placement report
  SessionId session = 0;
};

class StepPlan {
 public:
  // `workers`: all of the cluster, with the devices each has.
  struct WorkerDevices {
    Worker* worker;
    std::vector<DeviceName> devices;
  };

  // Possible errors: those of PruneToSignature, PlaceGraph, PartitionByDevice and Worker::RegisterPartition
  // (with the worker named).
  static absl::StatusOr<std::unique_ptr<StepPlan>> Compile(const Graph& graph, const StepSignature& signature,
                                                           absl::Span<const WorkerDevices> workers,
                                                           const StepPlanOptions& options,
                                                           absl::Time deadline);
  ~StepPlan();

  // Runs one step. feeds and fetches are in the signature's order; fetches are set on OK.
  // Waits for every worker. The first error cancels the step everywhere and is returned. At `deadline` the
  // step is cancelled: DeadlineExceeded names the workers that had not finished. After 10 s of waiting a line
  // on stderr says who is awaited and how long is left.
  absl::Status Run(absl::Span<const Tensor> feeds, absl::Span<Tensor> fetches, absl::Time deadline);

  // Cancels all running steps.
  void CancelAll(const absl::Status& reason);

  const std::string& placement_report() const { return report_; }
  int num_workers() const { return static_cast<int>(parts_.size()); }
  // Nodes by device after placement, for summaries that show devices.
  const std::vector<std::pair<std::string, DeviceName>>& placement() const { return placement_; }

 private:
  struct Part {
    Worker* worker;
    std::vector<int> feeds;    // argument i of the worker is this feed
    std::vector<int> fetches;  // result i of the worker is this fetch
  };
  class RunningStep;

  StepPlan() = default;

  PlanId id_ = 0;
  std::vector<Part> parts_;
  std::vector<int64_t> running_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex mutex_;
  std::atomic<int64_t> next_step_{1};
  int num_feeds_ = 0;
  int num_fetches_ = 0;
  std::string report_;
  std::vector<std::pair<std::string, DeviceName>> placement_;
};

}  // namespace weir
