// A worker of another task: the client side of WorkerService.
//
// A part of a step that can do nothing before it has tensors of this task's own part begins when that part
// has nothing left to run, with a message that brings them (tensor_pusher.h). The session asks the worker of
// its own process last.
//
// Borrows everything. Thread safety: all methods (contract: session/worker.h). Errors beyond those: Aborted
// when the task has restarted since its devices were listed, or has declared this task lost.
//
// Progress: RunPartition is done no later than kCancelGrace after CancelStep, whether or not the peer
// answers; its results are written only together with OK.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/tensor_pusher.h"
#include "session/local_worker.h"
#include "session/worker.h"

namespace weir {

class RemoteWorker final : public Worker {
 public:
  // How long a cancelled step may take to stop in good order before it is given up from here.
  static constexpr absl::Duration kCancelGrace = absl::Seconds(3);

  // `local`: this task's own worker, whose tensors go through `pusher`.
  RemoteWorker(Peers& peers, TaskName peer, TensorPusher& pusher, LocalWorker& local);
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

  bool NeedsTensorsFirst(PlanId plan) const;
  void Begin(const RunPartitionCall& call, const std::vector<EdgeTensor>& first, Done done);

  Peers& peers_;
  const TaskName peer_;
  const DeviceName task_;
  TensorPusher& pusher_;
  LocalWorker& local_;
  const std::shared_ptr<RunningSteps> running_ = std::make_shared<RunningSteps>();
  mutable absl::Mutex mutex_;
  absl::flat_hash_set<PlanId> need_tensors_first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
