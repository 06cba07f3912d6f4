// Calls between tasks over sockets of our own, beside another transport that does the rest.
//
// Everything begins on the other transport ("the network"). There a listener tells a caller that the network
// has admitted the name of a Unix socket, the number of a TCP port, and a ticket with its key. A channel that
// can connect to the name, or else to the port, and finds there who knows the key (introduction.h), sends its
// further calls through that connection, as long as it lives.
// Calls without a connection and calls that are not framed (IsFramedMethod) go over the network as before. So
// the network alone decides who may talk to whom, and is asked again at each request (Listener::CheckCaller).
//
// Why: a round trip through such a socket costs less than half of gRPC's, and large tensors go from the
// sender's buffer straight into the receiver's, without HTTP/2 in between (docs/benchmarks.md). Within a
// machine, where the system lets a listener read its clients' memory, requests do not even carry them: the
// listener fetches them.
//
// Unix sockets have names of the abstract namespace, which nothing outside the network namespace can reach,
// are told only to callers, and are used only between processes of the same user. A TCP port is at the host
// where the network listens; a channel connects to the address from which the network's answer came. Whoever
// connects and does not know a key costs little (a few kilobytes, with TLS some tens of them) for
// hello_timeout, and there are few of them at a time (strangers.h).
//
// Where the job wants TLS, TCP carries TLS 1.3 (tls/tls_stream.h). Its keys are those of the tickets, which
// the network's TLS has carried: who may talk to whom, and under which name, is what the network's
// certificates say. Unix sockets stay as they are: nothing leaves the machine, or this user's processes.
//
// Threads: one for the replies to this process's calls, `num_server_threads` or more (listening_threads.h)
// for each listener, one timer.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/transport/refusal.h"
#include "distributed/transport/tcp/tcp_socket.h"
#include "distributed/transport/transport.h"

namespace weir {

struct SocketTransportOptions {
  // Between processes of one user on one machine.
  bool unix_sockets = true;
  // Between others: where listeners listen for TCP connections. None: they do not, and channels make none.
  std::optional<PortRange> tcp_ports;
  // A peer's TCP port could not be reached, twice in a row. Called once for each address, on any thread.
  using OnUnreachable =
      std::function<void(const TaskName& peer, absl::string_view address, int port, absl::string_view why)>;
  OnUnreachable on_unreachable;
  // Told of strangers that did not know the key. Null: nobody.
  OnRefusal on_refused;
  // TCP connections are encrypted. The same on all tasks of a job.
  bool encrypts_tcp = false;
  // Whether a caller with these names in its certificate (IncomingCall::caller_names, when it was given its
  // ticket) may make a call of this method with this header. Null: all may.
  std::function<absl::Status(const std::vector<std::string>& names, absl::string_view method,
                             absl::string_view header)>
      admits;
  int64_t max_message_bytes = (int64_t{1} << 31) - (1 << 20);
  absl::Duration poll_before_sleep = absl::Microseconds(60);
  int num_server_threads = 4;
  int max_server_threads = 32;
  // While so many bytes of answers wait for a client to take them, its requests are not read.
  size_t max_queued_bytes = size_t{64} << 20;
  // Payloads of requests from this size on are lent (socket_message.h) if the listener can read them; smaller
  // ones are sent. 0: all are sent.
  size_t lent_bytes = 16 << 10;
  // A call that was given up keeps the memory that was lent for it until the listener answers; one that hangs
  // never does. When such calls keep more than this, the connection is closed.
  size_t max_abandoned_bytes = size_t{1} << 30;
  // How many connections to a listener may wait to be let in, at least 1, and how many descriptors of the
  // process may be in use when one more is accepted.
  size_t max_strangers = 64;
  int max_descriptors = std::numeric_limits<int>::max();
  // A new connection must show that it knows the key, and must be welcome, within this time.
  absl::Duration hello_timeout = absl::Seconds(10);
  // Between two attempts to find the listener's socket.
  absl::Duration retry_delay = absl::Milliseconds(100);
};

// ResourceExhausted when the process has no descriptors left.
absl::StatusOr<std::unique_ptr<Transport>> MakeSocketTransport(std::unique_ptr<Transport> network,
                                                               const SocketTransportOptions& options = {});

// The method by which a channel asks a listener for its sockets; answered by the listener itself. The reply's
// header (transport/wire.h): the name of its Unix socket, empty for none; its TCP port, 0 for none; a
// ticket and its key.
inline constexpr char kFindSocketMethod[] = "/weir.Transport/FindSocket";
// How the names begin; a channel connects to no others.
inline constexpr char kSocketNamePrefix[] = "weir-";

// For tests: whether calls of a channel that a socket transport made go through a socket now.
bool UsesSocket(const Channel& channel);

}  // namespace weir
