// The right of one process to write to a folder, such as a chief's to its model directory.
//
// It is the system's lock (flock) on the file ".lock" in the folder, in which the holder's process and host
// stand for whoever is refused. The system takes it back when the process ends, however it ends: a job that
// crashed blocks nobody. A lock that is held is a mistake for good, two jobs with one folder, unless its
// holder is about to end: hence the wait. It holds between processes of one machine, and between machines
// where a shared file system passes flock on. A file system without locks guards nothing: that is said on
// stderr.
//
// Thread safety: immutable. Sessions of one process exclude each other, too.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir {

class DirectoryLock {
 public:
  // Waits for a holder as long as it may, and says so on stderr. FailedPrecondition, naming the folder and
  // the holder, when it still has it; Unavailable when the holder is a process of this machine that was
  // stopped, so that whoever starts this program tries again; PermissionDenied, naming its owner and mode,
  // for a file ".lock" that may not be opened; FailedPrecondition for a symbolic link in its place; else
  // errors of the disk. The folder must exist.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(
      const std::string& directory, absl::Duration max_wait = absl::ZeroDuration());
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace weir
