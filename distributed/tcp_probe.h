// Whether somebody accepts TCP connections at an address. Thread safety: all functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace weir {

// `host` is an address, not a name. OK when the connection was accepted; it is closed at once. NotFound: the
// host refused (nobody listens); DeadlineExceeded: no sign of it; Unavailable: no way there; InvalidArgument:
// not an address.
absl::Status TryConnect(const std::string& host, int port, absl::Duration timeout);

// OK when `host`, an address, is one of this machine's; NotFound when it is not.
absl::Status CheckOwnAddress(const std::string& host);

}  // namespace weir
