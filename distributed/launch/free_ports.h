// TCP ports on loopback that nobody listens on.
//
// They lie below the range the kernel gives to outgoing connections: a client that keeps dialling a port of
// that range before its server is up can be connected to itself, and then the server can never bind it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// `count` different ports. Nothing reserves them: bind soon. ResourceExhausted when there are not that many.
absl::StatusOr<std::vector<int>> FindFreePorts(int count);

}  // namespace weir
