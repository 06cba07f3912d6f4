// A worker that asks another one for everything. A class that derives from it overrides what shall be
// different: one that shall pass for a worker of another process has no owners (worker.h).
//
// Thread safety: as the other worker, which it borrows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "session/worker.h"

namespace weir {

class ForwardingWorker : public Worker {
 public:
  // Not null, but for a derived class that sets it before it is asked for anything.
  explicit ForwardingWorker(Worker* worker) : worker_(worker) {}

  const DeviceName& task() const override { return worker_->task(); }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override {
    return worker_->ListDevices(deadline);
  }
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    return worker_->RegisterPartition(std::move(spec), deadline);
  }
  void RunPartition(const RunPartitionCall& call, Done done) override {
    worker_->RunPartition(call, std::move(done));
  }
  void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) override {
    worker_->CancelStep(plan, step_id, reason);
  }
  void DeregisterPartition(PlanId plan) override { worker_->DeregisterPartition(plan); }
  void EndSession(SessionId session) override { worker_->EndSession(session); }
  absl::Status BeginRestore(uint64_t id, absl::Time deadline) override {
    return worker_->BeginRestore(id, deadline);
  }
  absl::Status EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) override {
    return worker_->EndRestore(id, applied_updates, deadline);
  }
  std::string AppliedUpdates() override { return worker_->AppliedUpdates(); }
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override {
    return worker_->ResetContainers(containers, deadline);
  }
  absl::Status FeedStep(PlanId plan, int64_t step_id, int arg, const Tensor& tensor) override {
    return worker_->FeedStep(plan, step_id, arg, tensor);
  }
  StepOwners* owners() override { return worker_->owners(); }

 protected:
  Worker* worker_;
};

}  // namespace weir
