#include "kernels/formats/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace weir {

void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, unless another thread has just taken it.
    const int fd = open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (fd > STDERR_FILENO) close(fd);
  }
}

int OpenAboveStandardStreams(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return higher;
}

}  // namespace weir
