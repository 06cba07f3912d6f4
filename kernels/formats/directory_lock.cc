#include "kernels/formats/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/standard_streams.h"
#include "kernels/notice.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr int kMaxHolderBytes = 512;

std::string ThisProcess() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat("process ", getpid(), " on ", host[0] != '\0' ? host : "this machine");
}

// What the holder has written; the file is anybody's, so control characters are left out.
std::string HolderIn(int fd) {
  char text[kMaxHolderBytes];
  const ssize_t num_bytes = pread(fd, text, sizeof(text), 0);
  std::string holder;
  for (ssize_t i = 0; i < num_bytes; ++i) {
    if (absl::ascii_isprint(static_cast<unsigned char>(text[i]))) holder += text[i];
  }
  return holder.empty() ? "another process" : holder;
}

// Whether it is a process of this machine that somebody has stopped (SIGSTOP, Ctrl-Z): it goes on some day,
// and does not end before. The third word of /proc/<pid>/stat is the state, "T"; proc_pid_stat(5).
bool IsStopped(absl::string_view holder) {
  const absl::string_view pid = holder.substr(0, holder.find(" on "));
  const std::string self = ThisProcess();
  if (holder.substr(pid.size()) != self.substr(self.find(" on "))) return false;
  std::string stat;
  std::getline(std::ifstream(absl::StrCat("/proc/", absl::StripPrefix(pid, "process "), "/stat")), stat);
  const size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.compare(name_end + 2, 2, "T ") == 0;
}

absl::Status HeldBy(const std::string& holder, const std::string& directory) {
  const std::string message = absl::StrCat(directory, " is being written by ", holder);
  if (!IsStopped(holder)) {
    return absl::FailedPreconditionError(absl::StrCat(message, ": two jobs need a folder each"));
  }
  return absl::UnavailableError(
      absl::StrCat(message, ", which was stopped: kill -CONT lets it go on, kill -KILL ends it"));
}

constexpr absl::Duration kPause = absl::Milliseconds(100);

// PermissionDenied, where another user has made the file; FailedPrecondition for a link in its place. Changes
// errno.
absl::Status CannotOpen(const std::string& path, int error) {
  struct stat file;
  if (error == ELOOP && lstat(path.c_str(), &file) == 0 && S_ISLNK(file.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot open ", path,
        ": it is a symbolic link, and the file that it leads to may be anybody's: delete the link"));
  }
  if (error != EACCES || stat(path.c_str(), &file) != 0) {
    // The file system knows which errors may pass. This one has, where there is none now.
    WEIR_RETURN_IF_ERROR(PosixFileSystem().OpenForAppending(path).status());
    return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", std::strerror(error)));
  }
  return absl::PermissionDeniedError(absl::StrFormat(
      "cannot open %s: it belongs to the user %d and has the mode %04o, this process runs as the user %d: "
      "delete it if no job of that user runs, or take another folder",
      path, file.st_uid, file.st_mode & 07777, geteuid()));
}

absl::StatusOr<int> Open(const std::string& path) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK;
  int fd = OpenAboveStandardStreams(path, O_RDWR | O_CREAT | kFlags);
  // A file that only its owner may write can be locked all the same; it goes on naming the holder before.
  const int error = errno;
  if (fd < 0 && error == EACCES) fd = OpenAboveStandardStreams(path, O_RDONLY | kFlags);
  if (fd < 0) return CannotOpen(path, error);
  return fd;
}

// 0, or the error of flock: EWOULDBLOCK when another one still holds the file at the end.
int Lock(int fd, const std::string& directory, absl::Duration max_wait) {
  const absl::Time end = ProcessNow() + max_wait;
  bool is_first = true;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || ProcessNow() >= end) return errno;
    if (std::exchange(is_first, false)) {
      PrintNotice(absl::StrCat(directory, " is being written by ", HolderIn(fd),
                               ": waiting for its end, for ", absl::FormatDuration(max_wait), " at most"));
    }
    absl::SleepFor(std::min(kPause, max_wait));
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& directory,
                                                                      absl::Duration max_wait) {
  WEIR_ASSIGN_OR_RETURN(const int fd, Open(JoinPath(directory, ".lock")));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (const int error = Lock(fd, directory, max_wait); error != 0) {
    if (error == EWOULDBLOCK) return HeldBy(HolderIn(fd), directory);
    PrintNotice(absl::StrCat(directory, " cannot be locked (", std::strerror(error),
                             "): another job that writes there goes unnoticed"));
    return lock;
  }
  // Only for messages: a disk that is full must not keep a job from running.
  const std::string holder = absl::StrCat(ThisProcess(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, holder.data(), holder.size(), 0) < 0) return lock;
  return lock;
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace weir
