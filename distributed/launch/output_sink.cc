#include "distributed/launch/output_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace weir {

OutputSink::OutputSink(int fd) : fd_(fd) {
  struct stat found {};
  if (fstat(fd, &found) != 0) return;
  if (S_ISSOCK(found.st_mode)) kind_ = Kind::kSocket;
  if (!S_ISFIFO(found.st_mode) && !isatty(fd)) return;
  own_ = FileDescriptor(
      open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!own_.is_open()) kind_ = Kind::kMayBlock;  // another user's terminal, a pipe that nobody has open
}

int64_t OutputSink::WriteSome(absl::string_view bytes) const {
  if (kind_ == Kind::kSocket) return send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (kind_ == Kind::kFile) return write(fd(), bytes.data(), bytes.size());
  pollfd room{fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  // There is some room, but maybe not for all. Others have O_NONBLOCK for this moment only.
  const int flags = fcntl(fd_, F_GETFL);
  fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
  const ssize_t written = write(fd_, bytes.data(), bytes.size());
  const int error = errno;
  fcntl(fd_, F_SETFL, flags);
  errno = error;
  return written;
}

void OutputSink::Write(absl::string_view bytes) {
  if (kept_.size() - begin_ + bytes.size() > kMost) {
    num_lost_ += bytes.size();
    return;
  }
  kept_.append(bytes.data(), bytes.size());
  Flush();
}

void OutputSink::Flush() {
  while (has_backlog()) {
    const int64_t written = WriteSome(absl::string_view(kept_).substr(begin_));
    if (written >= 0) {
      begin_ += static_cast<size_t>(written);
      num_taken_ += static_cast<uint64_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      if (error_ == 0) error_ = errno;
      Drop();
    }
  }
  if (begin_ < kept_.size() / 2) return;
  kept_.erase(0, begin_);
  begin_ = 0;
}

void OutputSink::Drop() {
  num_lost_ += kept_.size() - begin_;
  kept_.clear();
  begin_ = 0;
}

int OutputSink::TakeError() {
  if (is_error_taken_) return 0;
  is_error_taken_ = error_ != 0;
  return error_;
}

}  // namespace weir
