// This task's worker for graphs of strangers: what their nodes may read and write is limited.
//
// Borrows the worker. Thread safety: as Worker.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/formats/file_system.h"
#include "session/worker.h"

namespace weir {

class ConfinedWorker final : public Worker {
 public:
  // `files`: what graphs may use (PartitionSpec::files).
  ConfinedWorker(Worker& worker, std::shared_ptr<FileSystem> files)
      : worker_(worker), files_(std::move(files)) {}

  const DeviceName& task() const override { return worker_.task(); }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override {
    return worker_.ListDevices(deadline);
  }
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    spec.files = files_;
    return worker_.RegisterPartition(std::move(spec), deadline);
  }
  void RunPartition(const RunPartitionCall& call, Done done) override {
    worker_.RunPartition(call, std::move(done));
  }
  absl::Status FeedStep(PlanId plan, int64_t step_id, int arg, const Tensor& tensor) override {
    return worker_.FeedStep(plan, step_id, arg, tensor);
  }
  void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) override {
    worker_.CancelStep(plan, step_id, reason);
  }
  void DeregisterPartition(PlanId plan) override { worker_.DeregisterPartition(plan); }
  void EndSession(SessionId session) override { worker_.EndSession(session); }
  absl::Status BeginRestore(uint64_t id, absl::Time deadline) override {
    return worker_.BeginRestore(id, deadline);
  }
  absl::Status EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) override {
    return worker_.EndRestore(id, applied_updates, deadline);
  }
  StepOwners* owners() override { return worker_.owners(); }
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override {
    return worker_.ResetContainers(containers, deadline);
  }

 private:
  Worker& worker_;
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace weir
