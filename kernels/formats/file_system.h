// The files below checkpoints, event files and records: the one door to the disk.
//
// Everything that reads or writes files takes a FileSystem, so that tests can give it one whose disk is full
// or fails (full_disk.h), and a server one that keeps remote graphs inside allowed folders (allowed_files.h).
//
// Thread safety: every method may be called from any thread.
// Errors name what was attempted, the path and the system's reason: NotFound (no such file or folder),
// PermissionDenied, ResourceExhausted (disk, quota or descriptors used up), FailedPrecondition (a folder
// where a file is wanted, or the other way round), InvalidArgument (a name that is too long, or a path with a
// zero byte, where the system would take the path to end), Internal or Unavailable otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/readable_file.h"
#include "kernels/formats/writable_file.h"

namespace weir {

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) = 0;
  // An empty file, also when there was one of that name.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // AlreadyExists when there is one of that name: of two that create it, one gets it.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) = 0;
  // Continues an existing file, or creates it.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) = 0;

  // Replaces `to` in one step: whoever opens it sees the old file or the new one.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Creates missing folders of the path too; an existing folder is fine.
  virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // FailedPrecondition or AlreadyExists where something is in it.
  virtual absl::Status RemoveEmptyDirectory(const std::string& path) = 0;
  // Makes earlier creations, renames and removals in the folder survive a power failure.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;
  // Names without the folder, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;

  bool Exists(const std::string& path) { return FileSize(path).ok(); }
};

// The disk of this machine. Lives as long as the process.
FileSystem& PosixFileSystem();

// The whole content. DataLoss when the file is longer than max_bytes: what is read this way is small by its
// nature.
absl::StatusOr<std::string> ReadWholeFile(FileSystem& file_system, const std::string& path,
                                          uint64_t max_bytes = uint64_t{1} << 30);

// Writes `content` to a temporary file in the same folder, syncs and renames it: after a crash at any moment
// `path` holds the old content or the new one. On an error the old content stays and the temporary file is
// removed.
absl::Status WriteFileAtomically(FileSystem& file_system, const std::string& path, absl::string_view content);

// A name in the same folder that no other process or thread uses: "<path>.tempstate<unique>".
std::string TemporaryPathFor(absl::string_view path);

// CreateDirectories, and syncs the folders that the new ones are in, so that they survive a power failure.
absl::Status CreateDurableDirectories(FileSystem& file_system, const std::string& path);

// Removes the temporary files that a process killed in the middle of writing left in the folder, and returns
// how many. Call it where nobody else writes there: when the chief of a job begins.
absl::StatusOr<int> RemoveTemporaryFiles(FileSystem& file_system, const std::string& directory);

// "a/b" of "a/b/c"; "." when there is no slash; "/" of "/c".
std::string DirectoryOf(absl::string_view path);
// "c" of "a/b/c".
std::string FileNameOf(absl::string_view path);
// `name` itself when it is absolute or the folder is empty or ".".
std::string JoinPath(absl::string_view directory, absl::string_view name);

}  // namespace weir
