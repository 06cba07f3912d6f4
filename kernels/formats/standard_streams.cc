#include "kernels/formats/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

std::string FlushStandardOutput() {
  constexpr char kCannot[] = "cannot write standard output: ";
  if (std::fflush(stdout) != 0) return std::string(kCannot) + std::strerror(errno);
  if (std::ferror(stdout) != 0) return std::string(kCannot) + "a part of it is lost";
  return "";
}

}  // namespace weir
