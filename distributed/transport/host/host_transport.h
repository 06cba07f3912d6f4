// Calls between tasks of one machine over sockets of our own, beside another transport that does the rest.
//
// Everything begins on the other transport ("the network"). There a listener tells a caller that the network
// has admitted the name of a Unix socket and a secret. If the channel can connect to that name, it sends its
// further calls through the socket, as long as the connection lives. Calls without a connection, calls that
// are not framed (IsFramedMethod), and all calls between machines go over the network as before. So the
// network alone decides who may talk to whom.
//
// Why: a round trip through such a socket costs less than half of gRPC's, and large tensors go from the
// sender's buffer straight into the receiver's, without HTTP/2 in between (docs/benchmarks.md). Where the
// system lets a listener read its clients' memory, requests do not even carry them: the listener fetches
// them.
//
// The sockets have names of the abstract namespace, which nothing outside the network namespace can reach,
// are told only to callers, and are used only between processes of the same user. They are not encrypted:
// where the job wants TLS, do not wrap its transport.
//
// Threads: one for the replies to this process's calls, `num_server_threads` or more (listening_threads.h)
// for each listener, one timer.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "distributed/transport/transport.h"

namespace weir {

struct HostTransportOptions {
  int64_t max_message_bytes = (int64_t{1} << 31) - (1 << 20);
  absl::Duration poll_before_sleep = absl::Microseconds(60);
  int num_server_threads = 4;
  int max_server_threads = 32;
  // Payloads of requests from this size on are lent (socket_message.h) if the listener can read them; smaller
  // ones are sent. 0: all are sent.
  size_t lent_bytes = 16 << 10;
  // A call that was given up keeps the memory that was lent for it until the listener answers; one that hangs
  // never does. When such calls keep more than this, the connection is closed.
  size_t max_abandoned_bytes = size_t{1} << 30;
  // A new connection must show the secret within this time.
  absl::Duration hello_timeout = absl::Seconds(10);
  // Between two attempts to find the listener's socket.
  absl::Duration retry_delay = absl::Milliseconds(100);
};

// ResourceExhausted when the process has no descriptors left.
absl::StatusOr<std::unique_ptr<Transport>> MakeHostTransport(std::unique_ptr<Transport> network,
                                                             const HostTransportOptions& options = {});

// The method by which a channel asks a listener for its socket; answered by the listener itself. The reply's
// header: two strings (transport/wire.h), name and secret.
inline constexpr char kFindSocketMethod[] = "/weir.Transport/FindSocket";
// How the names begin; a channel connects to no others.
inline constexpr char kSocketNamePrefix[] = "weir-";

// For tests: whether calls of a channel that a host transport made go through a socket now.
bool UsesSocket(const Channel& channel);

}  // namespace weir
