// TCP sockets that carry messages between machines (sockets/socket_transport.h): where they listen, and
// connecting.
//
// A connection is set up for small messages (nothing waits for more to come) and to be lost in
// kTcpSilence when the other machine is gone. Callers close the descriptors. Thread safety: all functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/transport/listening_sockets.h"

namespace weir {

// Ports of which the first free one is taken.
struct PortRange {
  int first = 0;  // 0: any free one
  int last = 0;
};

// "7000-7099", "7000"; empty: any. InvalidArgument.
absl::StatusOr<PortRange> ParsePortRange(absl::string_view text);

// At the first port of the range that is free at this host. Possible errors: as ListenAt; AlreadyExists when
// all are in use.
absl::StatusOr<ListeningSockets> ListenAtOneOf(const std::string& host, const PortRange& ports);

// The other side acknowledges nothing for so long, or takes nothing: the connection is lost, as one of gRPC
// is (GrpcOptions).
inline constexpr absl::Duration kTcpSilence = absl::Seconds(10);

// What every connection needs.
void SetUpTcpSocket(int fd);

// A descriptor that does not block, and that is connected or about to be, to `port` of the host that
// `address` names, "ipv4:10.0.0.1:4711": nothing is looked up. Possible errors: InvalidArgument (no such
// address), ResourceExhausted, Unavailable.
absl::StatusOr<int> BeginToConnect(absl::string_view address, int port);

}  // namespace weir
