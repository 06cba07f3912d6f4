// A file system that asks another one, for those that change some calls only and take this one as base.
//
// Thread safety and errors: as the other one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/formats/file_system.h"

namespace weir {

class ForwardingFileSystem : public FileSystem {
 public:
  // `files` is borrowed.
  explicit ForwardingFileSystem(FileSystem& files) : files_(files) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return files_.OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return files_.Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    return files_.CreateNew(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return files_.OpenForAppending(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return files_.Remove(path); }
  absl::Status CreateDirectories(const std::string& path) override { return files_.CreateDirectories(path); }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return files_.RemoveEmptyDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override { return files_.SyncDirectory(path); }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override { return files_.FileSize(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return files_.ListDirectory(path);
  }

 private:
  FileSystem& files_;
};

}  // namespace weir
