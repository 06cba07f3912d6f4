// For tests: a file system on which writing can be made to wait, or to fail.
//
// Thread safety: as FileSystem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/forwarding_file_system.h"

namespace weir {

class HeldDisk final : public ForwardingFileSystem {
 public:
  HeldDisk() : ForwardingFileSystem(PosixFileSystem()) {}

  // From now on whoever creates a file waits until Release.
  void Hold() { Set(true, absl::OkStatus()); }
  // Those that wait go on, and get this error where it is one.
  void Release(absl::Status error = absl::OkStatus()) { Set(false, std::move(error)); }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (absl::Status status = Await(); !status.ok()) return status;
    return ForwardingFileSystem::Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    if (absl::Status status = Await(); !status.ok()) return status;
    return ForwardingFileSystem::CreateNew(path);
  }

 private:
  void Set(bool is_held, absl::Status error) {
    absl::MutexLock lock(&mutex_);
    is_free_ = !is_held;
    error_ = std::move(error);
  }
  absl::Status Await() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_free_));
    return error_;
  }

  absl::Mutex mutex_;
  bool is_free_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
