// This task's worker for graphs of strangers: what their nodes may read and write is limited.
//
// Borrows the worker. Thread safety: as Worker.
#pragma once

#include <memory>
#include <utility>

#include "kernels/formats/file_system.h"
#include "session/forwarding_worker.h"

namespace weir {

class ConfinedWorker final : public ForwardingWorker {
 public:
  // `files`: what graphs may use (PartitionSpec::files).
  ConfinedWorker(Worker& worker, std::shared_ptr<FileSystem> files)
      : ForwardingWorker(&worker), files_(std::move(files)) {}

  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    spec.files = files_;
    return worker_->RegisterPartition(std::move(spec), deadline);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace weir
