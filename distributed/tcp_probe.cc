#include "distributed/tcp_probe.h"

#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> ParseAddress(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", host, "' is no address: ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  Socket(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status AsStatus(int error) {
  switch (error) {
    case 0:
      return absl::OkStatus();
    case ECONNREFUSED:
      return absl::NotFoundError("connection refused");
    case ETIMEDOUT:
      return absl::DeadlineExceededError(strerror(error));
    default:
      return absl::UnavailableError(strerror(error));
  }
}

}  // namespace

absl::Status TryConnect(const std::string& host, int port, absl::Duration timeout) {
  WEIR_ASSIGN_OR_RETURN(const AddressList address, ParseAddress(host, port));
  const Socket socket(address->ai_family);
  if (socket.fd() < 0) return AsStatus(errno);
  if (connect(socket.fd(), address->ai_addr, address->ai_addrlen) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return AsStatus(errno);
  const absl::Time deadline = ProcessNow() + timeout;
  pollfd event{socket.fd(), POLLOUT, 0};
  while (true) {
    const absl::Duration left = std::clamp(deadline - ProcessNow(), absl::ZeroDuration(), absl::Hours(1));
    const int ready = poll(&event, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    if (ready == 0) return absl::DeadlineExceededError("no answer");
    if (ready > 0) break;
    if (errno != EINTR) return AsStatus(errno);
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return AsStatus(error);
}

absl::Status CheckOwnAddress(const std::string& host) {
  WEIR_ASSIGN_OR_RETURN(const AddressList address, ParseAddress(host, 0));
  const Socket socket(address->ai_family);
  if (socket.fd() < 0) return AsStatus(errno);
  if (bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0) return absl::OkStatus();
  return errno == EADDRNOTAVAIL ? absl::NotFoundError(absl::StrCat(host, " is no address of this machine"))
                                : AsStatus(errno);
}

}  // namespace weir
