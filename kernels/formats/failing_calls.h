// For tests: a file system over another one, of whose calls that change something one fails, as a disk with a
// bad sector (EIO) or a quota that is used up for a moment (ENOSPC) does. A write that fails has taken half
// of its bytes.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir {

class FailingCalls final : public FileSystem {
 public:
  explicit FailingCalls(FileSystem& disk) : disk_(disk) {}

  // The call after this many others fails, once, with this code.
  void Fail(int after, absl::StatusCode code) {
    calls_left_ = after;
    code_ = code;
  }
  bool has_failed() const { return calls_left_ < 0; }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return disk_.OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("create", path));
    return Wrap(disk_.Create(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("create", path));
    return Wrap(disk_.CreateNew(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("open", path));
    return Wrap(disk_.OpenForAppending(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    WEIR_RETURN_IF_ERROR(Spend("rename", from));
    return disk_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("remove", path));
    return disk_.Remove(path);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("create the folder", path));
    return disk_.CreateDirectories(path);
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("remove", path));
    return disk_.RemoveEmptyDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(Spend("sync", path));
    return disk_.SyncDirectory(path);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override { return disk_.FileSize(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return disk_.ListDirectory(path);
  }

 private:
  class Writable final : public WritableFile {
   public:
    Writable(FailingCalls& calls, std::unique_ptr<WritableFile> file)
        : calls_(calls), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    absl::Status Append(absl::string_view data) override {
      const absl::Status spent = calls_.Spend("write", path());
      WEIR_RETURN_IF_ERROR(file_->Append(spent.ok() ? data : data.substr(0, data.size() / 2)));
      return spent;
    }
    absl::Status Flush() override {
      WEIR_RETURN_IF_ERROR(calls_.Spend("write", path()));
      return file_->Flush();
    }
    absl::Status Sync() override {
      WEIR_RETURN_IF_ERROR(calls_.Spend("sync", path()));
      return file_->Sync();
    }
    absl::Status Close() override {
      const absl::Status closed = file_->Close();
      WEIR_RETURN_IF_ERROR(calls_.Spend("close", path()));
      return closed;
    }

   private:
    FailingCalls& calls_;
    const std::unique_ptr<WritableFile> file_;
  };

  absl::StatusOr<std::unique_ptr<WritableFile>> Wrap(absl::StatusOr<std::unique_ptr<WritableFile>> file) {
    if (!file.ok()) return file.status();
    return std::make_unique<Writable>(*this, *std::move(file));
  }

  absl::Status Spend(absl::string_view what, const std::string& path) {
    if (calls_left_ < 0 || calls_left_-- > 0) return absl::OkStatus();
    return absl::Status(code_, absl::StrCat("cannot ", what, " ", path, ": injected"));
  }

  FileSystem& disk_;
  int calls_left_ = 1 << 30;
  absl::StatusCode code_ = absl::StatusCode::kInternal;
};

}  // namespace weir
