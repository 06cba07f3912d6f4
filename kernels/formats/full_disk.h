// For tests: a file system over another one whose disk is full after a number of bytes, or that fails at a
// chosen call.
//
// Thread safety: as FileSystem.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/forwarding_file_system.h"

namespace weir {

class FullDisk final : public ForwardingFileSystem {
 public:
  // Every byte appended to any file through this object counts; the append that crosses the capacity fails
  // with ResourceExhausted, as the real disk's does, and so does every later one.
  explicit FullDisk(int64_t capacity_bytes, FileSystem& disk = PosixFileSystem())
      : ForwardingFileSystem(disk), free_bytes_(capacity_bytes) {}

  // Makes that many further bytes fit (or, negative, not fit).
  void AddCapacity(int64_t num_bytes) { free_bytes_ += num_bytes; }
  // The next call of Rename fails with Internal, or the next one to a path with this ending.
  void FailNextRename(std::string ending = "") {
    absl::MutexLock lock(&mutex_);
    ending_to_fail_ = std::move(ending);
  }
  // RemoveEmptyDirectory fails with PermissionDenied from now on, as in a folder that may not be written.
  void KeepFolders() { keeps_folders_ = true; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, ForwardingFileSystem::Create(path));
    return std::make_unique<LimitedFile>(std::move(file), free_bytes_);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, ForwardingFileSystem::CreateNew(path));
    return std::make_unique<LimitedFile>(std::move(file), free_bytes_);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, ForwardingFileSystem::OpenForAppending(path));
    return std::make_unique<LimitedFile>(std::move(file), free_bytes_);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    {
      absl::MutexLock lock(&mutex_);
      if (ending_to_fail_.has_value() && absl::EndsWith(to, *ending_to_fail_)) {
        ending_to_fail_.reset();
        return absl::InternalError(absl::StrCat("cannot rename ", from));
      }
    }
    return ForwardingFileSystem::Rename(from, to);
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    if (keeps_folders_) return absl::PermissionDeniedError(absl::StrCat("cannot remove ", path));
    return ForwardingFileSystem::RemoveEmptyDirectory(path);
  }

 private:
  class LimitedFile final : public WritableFile {
   public:
    LimitedFile(std::unique_ptr<WritableFile> file, std::atomic<int64_t>& free_bytes)
        : file_(std::move(file)), free_bytes_(free_bytes) {}
    const std::string& path() const override { return file_->path(); }
    absl::Status Append(absl::string_view data) override {
      if ((free_bytes_ -= static_cast<int64_t>(data.size())) < 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("cannot write ", path(), ": No space left on device"));
      }
      return file_->Append(data);
    }
    absl::Status Flush() override { return file_->Flush(); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Close() override { return file_->Close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    std::atomic<int64_t>& free_bytes_;
  };

  std::atomic<int64_t> free_bytes_;
  std::atomic<bool> keeps_folders_{false};
  absl::Mutex mutex_;
  std::optional<std::string> ending_to_fail_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
