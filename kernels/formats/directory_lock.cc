#include "kernels/formats/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/formats/file_system.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& directory) {
  const std::string path = JoinPath(directory, ".lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, " is being written by ", HolderIn(fd), ": two jobs need a folder each"));
    }
    std::fprintf(stderr, "weir: %s cannot be locked (%s): another job that writes there goes unnoticed\n",
                 directory.c_str(), std::strerror(errno));
    return lock;
  }
  // Only for messages: a disk that is full must not keep a job from running.
  const std::string holder = absl::StrCat(ThisProcess(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, holder.data(), holder.size(), 0) < 0) return lock;
  return lock;
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace weir
