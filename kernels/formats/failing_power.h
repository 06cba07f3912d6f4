// For tests: a file system in memory whose power fails at a chosen call, and what may then be on the disk.
//
// As a disk is allowed to: the bytes of a file are safe once it is synced, the entries of a folder (files
// created, renamed and removed, folders created) once the folder is. What is not safe may be there or not,
// each entry by itself.
//
// Thread safety: one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/memory_files.h"

namespace weir {

class FailingPower final : public FileSystem {
 public:
  // The calls that change something until the power fails; every later one is Unavailable.
  void FailAfter(int num_calls) { calls_left_ = num_calls; }
  bool has_failed() const { return calls_left_ < 0; }
  // All is safe: what was there before the test.
  void SyncEverything() {
    for (auto& [path, file] : now_) file->safe = file->bytes;
    safe_ = now_;
    safe_folders_ = folders_;
  }

  // What the next start may find: every combination of unsafe entries kept and lost, with the unsafe bytes of
  // the files kept and lost. Also the state of a process that died while the machine went on.
  std::vector<std::unique_ptr<MemoryFiles>> PossibleDisks() const {
    std::vector<std::string> unsafe;
    for (const auto& [path, file] : now_) {
      if (!safe_.contains(path) || safe_.at(path) != file) unsafe.push_back(path);
    }
    for (const auto& [path, file] : safe_) {
      if (!now_.contains(path)) unsafe.push_back(path);
    }
    std::vector<std::unique_ptr<MemoryFiles>> disks;
    for (size_t kept = 0; kept < size_t{1} << unsafe.size(); ++kept) {
      Entries entries = safe_;
      for (size_t i = 0; i < unsafe.size(); ++i) {
        if ((kept >> i & 1) == 0) continue;
        entries.erase(unsafe[i]);
        if (now_.contains(unsafe[i])) entries.emplace(unsafe[i], now_.at(unsafe[i]));
      }
      for (const bool keeps_bytes : {false, true}) disks.push_back(DiskOf(entries, keeps_bytes));
    }
    disks.push_back(DiskOf(now_, true, folders_));
    return disks;
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return DiskOf(now_, true, folders_)->OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (!SpendCall()) return PowerIsOff(path);
    // An existing file is emptied at once, which is a change of its bytes.
    auto [place, is_new] = now_.try_emplace(path);
    if (is_new) place->second = std::make_shared<File>();
    place->second->bytes.clear();
    return std::make_unique<Writable>(*this, path, place->second);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    if (now_.contains(path)) return absl::AlreadyExistsError(absl::StrCat("cannot create ", path));
    return Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    if (!now_.contains(path)) return Create(path);
    return std::make_unique<Writable>(*this, path, now_.at(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (!SpendCall()) return PowerIsOff(from);
    const auto place = now_.find(from);
    if (place == now_.end()) return absl::NotFoundError(from);
    now_[to] = place->second;
    now_.erase(from);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    if (!SpendCall()) return PowerIsOff(path);
    return now_.erase(path) > 0 ? absl::OkStatus() : absl::NotFoundError(path);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    if (!SpendCall()) return PowerIsOff(path);
    for (std::string folder = path; folders_.insert(folder).second;) folder = DirectoryOf(folder);
    return absl::OkStatus();
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    if (!SpendCall()) return PowerIsOff(path);
    return folders_.erase(path) > 0 ? absl::OkStatus() : absl::NotFoundError(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    if (!SpendCall()) return PowerIsOff(path);
    std::erase_if(safe_, [&](const auto& entry) { return DirectoryOf(entry.first) == path; });
    for (const auto& [name, file] : now_) {
      if (DirectoryOf(name) == path) safe_.emplace(name, file);
    }
    for (const std::string& folder : folders_) {
      if (DirectoryOf(folder) == path) safe_folders_.insert(folder);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    if (folders_.contains(path)) return 0;
    const auto place = now_.find(path);
    if (place == now_.end()) return absl::NotFoundError(path);
    return place->second->bytes.size();
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return DiskOf(now_, true, folders_)->ListDirectory(path);
  }

 private:
  struct File {
    std::string bytes;
    std::string safe;
  };
  using Entries = std::map<std::string, std::shared_ptr<File>>;
  using Folders = std::set<std::string>;

  class Writable final : public WritableFile {
   public:
    Writable(FailingPower& disk, std::string path, std::shared_ptr<File> file)
        : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
    const std::string& path() const override { return path_; }
    absl::Status Append(absl::string_view data) override {
      if (!disk_.SpendCall()) return PowerIsOff(path_);
      file_->bytes.append(data.data(), data.size());
      return absl::OkStatus();
    }
    absl::Status Flush() override { return absl::OkStatus(); }
    absl::Status Sync() override {
      if (!disk_.SpendCall()) return PowerIsOff(path_);
      file_->safe = file_->bytes;
      return absl::OkStatus();
    }
    absl::Status Close() override { return absl::OkStatus(); }

   private:
    FailingPower& disk_;
    const std::string path_;
    const std::shared_ptr<File> file_;
  };

  bool SpendCall() { return calls_left_ >= 0 && --calls_left_ >= 0; }
  static absl::Status PowerIsOff(const std::string& path) {
    return absl::UnavailableError(absl::StrCat(path, ": the power is off"));
  }

  std::unique_ptr<MemoryFiles> DiskOf(const Entries& entries, bool keeps_bytes) const {
    return DiskOf(entries, keeps_bytes, safe_folders_);
  }
  static std::unique_ptr<MemoryFiles> DiskOf(const Entries& entries, bool keeps_bytes,
                                             const Folders& folders) {
    auto disk = std::make_unique<MemoryFiles>();
    for (const auto& [path, file] : entries) {
      if (IsReachable(DirectoryOf(path), folders)) disk->Put(path, keeps_bytes ? file->bytes : file->safe);
    }
    return disk;
  }
  static bool IsReachable(const std::string& folder, const Folders& folders) {
    if (folder == "/" || folder == ".") return true;
    return folders.contains(folder) && IsReachable(DirectoryOf(folder), folders);
  }

  Entries now_, safe_;
  Folders folders_ = {"/", "."}, safe_folders_ = {"/", "."};
  int calls_left_ = 1 << 30;
};

}  // namespace weir
