#include "distributed/transport/tcp/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "distributed/cluster_spec.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPort = 65535;
constexpr absl::Duration kIdle = absl::Seconds(5);  // before the other side is asked whether it is there

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));  // a connection works without them
}

bool ParsePort(absl::string_view text, int* port) {
  return absl::SimpleAtoi(text, port) && *port > 0 && *port <= kMaxPort;
}

// "ipv6:%5Bfe80::1%25eth0%5D:80" is the host "fe80::1%eth0".
absl::StatusOr<std::string> HostOf(absl::string_view address) {
  const std::string text = absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  if (parts.first != "ipv4" && parts.first != "ipv6") {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is no address of a TCP connection"));
  }
  WEIR_ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(parts.second));
  return host_port.host;
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(absl::string_view text) {
  if (text.empty()) return PortRange();
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  PortRange range;
  if (parts.size() <= 2 && ParsePort(parts.front(), &range.first) && ParsePort(parts.back(), &range.last) &&
      range.first <= range.last) {
    return range;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no range of ports: write '7000-7099', or one port"));
}

absl::StatusOr<ListeningSockets> ListenAtOneOf(const std::string& host, const PortRange& ports) {
  absl::StatusOr<ListeningSockets> sockets;
  for (int port = ports.first; port <= ports.last; ++port) {
    sockets = ListenAt(HostPort{host, port}.ToString());
    if (!absl::IsAlreadyExists(sockets.status())) return sockets;
  }
  if (ports.first == ports.last) return sockets;
  return absl::AlreadyExistsError(absl::StrCat("cannot listen at ", host, ": all ports from ", ports.first,
                                               " to ", ports.last, " are in use"));
}

void SetUpTcpSocket(int fd) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(absl::ToInt64Milliseconds(kTcpSilence)));
  // TCP_USER_TIMEOUT counts only while something is under way.
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(absl::ToInt64Seconds(kIdle)));
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
}

absl::StatusOr<int> BeginToConnect(absl::string_view address, int port) {
  WEIR_ASSIGN_OR_RETURN(const std::string host, HostOf(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' and ", port, " are no address"));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = errno;
  if (fd >= 0) {
    SetUpTcpSocket(fd);
    error = connect(fd, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS ? 0 : errno;
  }
  freeaddrinfo(found);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot make a socket: ", strerror(error)));
  if (error == 0) return fd;
  close(fd);
  return absl::UnavailableError(absl::StrCat("cannot connect to port ", port, ": ", strerror(error)));
}

}  // namespace weir
