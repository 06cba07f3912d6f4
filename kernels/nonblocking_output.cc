#include "kernels/nonblocking_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace weir {

NonblockingOutput::NonblockingOutput(int fd) : fd_(fd) {
  struct stat found {};
  if (fstat(fd, &found) != 0) return;
  if (S_ISSOCK(found.st_mode)) kind_ = Kind::kSocket;
  if (!S_ISFIFO(found.st_mode) && !isatty(fd)) return;
  own_ = open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own_ < 0) kind_ = Kind::kMayBlock;  // another user's terminal, a pipe that nobody has open
}

NonblockingOutput::~NonblockingOutput() {
  if (own_ >= 0) close(own_);
}

int64_t NonblockingOutput::WriteSome(absl::string_view bytes) const {
  if (kind_ == Kind::kSocket) return send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (kind_ == Kind::kFile) return write(fd(), bytes.data(), bytes.size());
  pollfd room{fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  // There is some room, but maybe not for all.
  const int flags = fcntl(fd_, F_GETFL);
  fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
  const ssize_t written = write(fd_, bytes.data(), bytes.size());
  const int error = errno;
  fcntl(fd_, F_SETFL, flags);
  errno = error;
  return written;
}

}  // namespace weir
