#include "distributed/transport/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kPortTries = 8;

uint16_t& PortOf(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                       : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
}

bool IsAnyIpv4(const sockaddr_storage& address) {
  return address.ss_family == AF_INET &&
         reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

absl::StatusOr<std::vector<sockaddr_storage>> AddressesOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("host '", host, "': ", gai_strerror(error)));
  }
  std::vector<sockaddr_storage> addresses;
  for (const addrinfo* resolved = found; resolved != nullptr; resolved = resolved->ai_next) {
    memcpy(&addresses.emplace_back(), resolved->ai_addr, resolved->ai_addrlen);
  }
  freeaddrinfo(found);
  return addresses;
}

// A listening socket, or -1 and errno.
int ListenAtOne(sockaddr_storage address, int port) {
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  PortOf(address) = htons(static_cast<uint16_t>(port));
  const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// At all interfaces: one socket for IPv6 and IPv4, or one for IPv4 where there is no IPv6.
int ListenAtAny(int port) {
  sockaddr_storage any{};
  any.ss_family = AF_INET6;
  const int fd = ListenAtOne(any, port);
  if (fd >= 0 || errno == EADDRINUSE || errno == EACCES) return fd;
  any.ss_family = AF_INET;
  return ListenAtOne(any, port);
}

int BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(PortOf(address));
}

// Sockets at those addresses that can be had, all with one port, and why others cannot (0: all can).
std::vector<int> ListenAtAll(const std::vector<sockaddr_storage>& addresses, int port, int* failure) {
  std::vector<int> fds;
  *failure = 0;
  for (const sockaddr_storage& address : addresses) {
    const int fd = IsAnyIpv4(address) ? ListenAtAny(port) : ListenAtOne(address, port);
    if (fd >= 0) {
      fds.push_back(fd);
      if (port == 0) port = BoundPort(fd);
    } else if (*failure != EADDRINUSE) {
      *failure = errno;
    }
  }
  return fds;
}

}  // namespace

absl::StatusOr<ListeningSockets> ListenAt(const std::string& address) {
  const auto failed = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(code, absl::StrCat("cannot listen at ", address, ": ", why));
  };
  WEIR_ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(address));
  const absl::StatusOr<std::vector<sockaddr_storage>> addresses = AddressesOf(host_port.host);
  if (!addresses.ok()) return failed(addresses.status().code(), addresses.status().message());
  ListeningSockets sockets;
  int failure = 0;
  for (int i = 0; i < kPortTries; ++i) {
    sockets.fds = ListenAtAll(*addresses, host_port.port, &failure);
    if (!sockets.fds.empty() && failure != EADDRINUSE) break;
    for (const int fd : std::exchange(sockets.fds, {})) close(fd);
    // A port that is free at the first address may be taken at the second.
    if (host_port.port != 0) break;
  }
  if (sockets.fds.empty()) {
    if (failure == EADDRINUSE) return failed(absl::StatusCode::kAlreadyExists, strerror(failure));
    if (failure == EACCES) return failed(absl::StatusCode::kPermissionDenied, strerror(failure));
    return failed(absl::StatusCode::kInvalidArgument, strerror(failure));
  }
  sockets.port = BoundPort(sockets.fds[0]);
  return sockets;
}

}  // namespace weir
