// A worker of another task: the client side of WorkerService.
//
// Borrows Peers. Thread safety: all methods (contract: session/worker.h). Errors beyond those: Aborted when
// the task has restarted since its devices were listed, or has declared this task lost.
//
// Progress: RunPartition is done no later than kCancelGrace after CancelStep, whether or not the peer
// answers; its results are written only together with OK.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peers/peers.h"
#include "session/worker.h"

namespace weir {

class RemoteWorker final : public Worker {
 public:
  // How long a cancelled step may take to stop in good order before it is given up from here.
  static constexpr absl::Duration kCancelGrace = absl::Seconds(3);

  RemoteWorker(Peers& peers, TaskName peer);
  ~RemoteWorker() override;

  const DeviceName& task() const override { return task_; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override;
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override;
  void RunPartition(const RunPartitionCall& call, Done done) override;
  void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) override;
  void DeregisterPartition(PlanId plan) override;
  void EndSession(SessionId session) override;
  absl::Status BeginRestore(uint64_t id, absl::Time deadline) override;
  absl::Status EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) override;
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override;

 private:
  using StepKey = std::pair<PlanId, int64_t>;
  // The calls of running steps, shared with the callbacks, which may outlive the worker.
  struct RunningSteps {
    absl::Mutex mutex;
    absl::flat_hash_map<StepKey, std::shared_ptr<Peers::Handle>> calls ABSL_GUARDED_BY(mutex);
  };

  Peers& peers_;
  const TaskName peer_;
  const DeviceName task_;
  const std::shared_ptr<RunningSteps> running_ = std::make_shared<RunningSteps>();
};

}  // namespace weir
