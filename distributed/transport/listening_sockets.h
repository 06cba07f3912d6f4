// Sockets that listen for TCP connections. Thread safety: all functions.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

struct ListeningSockets {
  std::vector<int> fds;  // the caller's to close; non-blocking
  int port = 0;
};

// At "host:port"; port 0: a free one. A host may have several addresses (localhost: ::1 and 127.0.0.1), of
// which one that works is enough; but one in use is in use. "0.0.0.0" is all interfaces, with IPv6.
// Possible errors: AlreadyExists (the port is in use), PermissionDenied, InvalidArgument (no such host, no
// address of this machine).
absl::StatusOr<ListeningSockets> ListenAt(const std::string& address);

}  // namespace weir
