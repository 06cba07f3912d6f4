// A file system that reaches into some folders only: what graphs of other tasks get where a server's owner
// allows them no more.
//
// A path counts by where it leads: symbolic links and ".." are resolved first, and the file is then opened by
// the resolved name. This is no protection from a program of this machine that changes the folders' links
// meanwhile; graphs cannot make links.
//
// Thread safety: all methods. Errors: those of the file system below, and PermissionDenied, naming the path
// and the folders, for a path that leads elsewhere, whether there is such a file or not, and for one that
// leads over a link to nothing, or into a folder that may not be read; InvalidArgument for one of more than
// 256 parts, or longer than the system takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/formats/file_system.h"

namespace weir {

class AllowedFiles final : public FileSystem {
 public:
  // Borrows `files`. InvalidArgument for a folder that there is not.
  static absl::StatusOr<std::unique_ptr<AllowedFiles>> In(const std::vector<std::string>& folders,
                                                          FileSystem& files = PosixFileSystem());

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status RemoveEmptyDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;

 private:
  AllowedFiles(std::vector<std::string> folders, FileSystem& files)
      : folders_(std::move(folders)), files_(files) {}

  // Where the path leads.
  absl::StatusOr<std::string> Resolve(const std::string& path) const;
  // Where the entry of that name is; it may be a link itself.
  absl::StatusOr<std::string> ResolveEntry(const std::string& path) const;
  bool IsAllowed(const std::string& resolved) const;
  absl::Status Refusal(const std::string& path) const;
  // What is wrong with a path that cannot be resolved, when that is inside the folders; otherwise empty.
  std::string ObstacleInside(const std::string& path) const;

  const std::vector<std::string> folders_;  // resolved
  FileSystem& files_;
};

}  // namespace weir
