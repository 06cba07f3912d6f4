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

namespace weir {

class HeldDisk final : public FileSystem {
 public:
  // From now on whoever creates a file waits until Release.
  void Hold() { Set(true, absl::OkStatus()); }
  // Those that wait go on, and get this error where it is one.
  void Release(absl::Status error = absl::OkStatus()) { Set(false, std::move(error)); }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return disk_.OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (absl::Status status = Await(); !status.ok()) return status;
    return disk_.Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    if (absl::Status status = Await(); !status.ok()) return status;
    return disk_.CreateNew(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return disk_.OpenForAppending(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return disk_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return disk_.Remove(path); }
  absl::Status CreateDirectories(const std::string& path) override { return disk_.CreateDirectories(path); }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return disk_.RemoveEmptyDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override { return disk_.SyncDirectory(path); }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override { return disk_.FileSize(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return disk_.ListDirectory(path);
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

  FileSystem& disk_ = PosixFileSystem();
  absl::Mutex mutex_;
  bool is_free_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
