// For tests: a file system in memory. Folders exist as soon as they are asked for.
//
// Thread safety: as FileSystem; the content of a file must not be read and written at the same time.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/formats/file_system.h"

namespace weir {

class MemoryFiles final : public FileSystem {
 public:
  // Creates or replaces a file.
  void Put(const std::string& path, absl::string_view content) {
    absl::MutexLock lock(&mutex_);
    files_[path] = std::make_shared<std::string>(content);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    const std::shared_ptr<std::string> content = Find(path);
    if (content == nullptr) return Missing(path);
    return std::make_unique<Readable>(path, content);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    Put(path, "");
    return std::make_unique<Writable>(path, Find(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    auto content = std::make_shared<std::string>();
    absl::MutexLock lock(&mutex_);
    if (!files_.emplace(path, content).second) {
      return absl::AlreadyExistsError(absl::StrCat("cannot create ", path, ": File exists"));
    }
    return std::make_unique<Writable>(path, content);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    if (Find(path) == nullptr) Put(path, "");
    return std::make_unique<Writable>(path, Find(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    absl::MutexLock lock(&mutex_);
    const auto place = files_.find(from);
    if (place == files_.end()) return Missing(from);
    const std::shared_ptr<std::string> content = place->second;
    files_.erase(place);
    files_[to] = content;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    absl::MutexLock lock(&mutex_);
    return files_.erase(path) > 0 ? absl::OkStatus() : Missing(path);
  }
  absl::Status CreateDirectories(const std::string&) override { return absl::OkStatus(); }
  absl::Status RemoveEmptyDirectory(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncDirectory(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    const std::shared_ptr<std::string> content = Find(path);
    if (content == nullptr) return Missing(path);
    return content->size();
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> names;
    for (const auto& [file, content] : files_) {
      if (DirectoryOf(file) == path) names.push_back(FileNameOf(file));
    }
    return names;
  }

 private:
  class Readable final : public ReadableFile {
   public:
    Readable(std::string path, std::shared_ptr<std::string> content)
        : path_(std::move(path)), content_(std::move(content)) {}
    const std::string& path() const override { return path_; }
    uint64_t num_bytes() const override { return content_->size(); }
    absl::StatusOr<size_t> Read(uint64_t offset, size_t num_bytes, void* destination) const override {
      if (offset >= content_->size()) return 0;
      return content_->copy(static_cast<char*>(destination), num_bytes, offset);
    }

   private:
    const std::string path_;
    const std::shared_ptr<std::string> content_;
  };

  class Writable final : public WritableFile {
   public:
    Writable(std::string path, std::shared_ptr<std::string> content)
        : path_(std::move(path)), content_(std::move(content)) {}
    const std::string& path() const override { return path_; }
    absl::Status Append(absl::string_view data) override {
      content_->append(data.data(), data.size());
      return absl::OkStatus();
    }
    absl::Status Flush() override { return absl::OkStatus(); }
    absl::Status Sync() override { return absl::OkStatus(); }
    absl::Status Close() override { return absl::OkStatus(); }

   private:
    const std::string path_;
    const std::shared_ptr<std::string> content_;
  };

  std::shared_ptr<std::string> Find(const std::string& path) {
    absl::MutexLock lock(&mutex_);
    const auto place = files_.find(path);
    return place == files_.end() ? nullptr : place->second;
  }
  static absl::Status Missing(const std::string& path) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": No such file or directory"));
  }

  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<std::string>> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
