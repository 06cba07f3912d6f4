// The server side of the socket transport (socket_transport.h): a listener of the network, and sockets
// beside it.
//
// Made by the transport, owned by the caller; borrows the network and the transport's timers. Handlers run on
// the threads of the network's listener and of the sockets' poller. Thread safety: all methods, but Shutdown
// not from a handler.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/sockets/acceptor.h"
#include "distributed/transport/sockets/introduction.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "distributed/transport/sockets/socket_transport.h"
#include "distributed/transport/sockets/strangers.h"
#include "distributed/transport/tls/tls_stream.h"

namespace weir {

class SocketListener final : public Listener {
 public:
  // Borrows network and timers.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(Transport& network, const std::string& address,
                                                         CallHandler handler, PayloadPlacement placement,
                                                         TimerQueue& timers,
                                                         const SocketTransportOptions& options);
  ~SocketListener() override;

  const std::string& address() const override { return network_->address(); }
  absl::Status CheckCaller(absl::string_view mark) const override { return network_->CheckCaller(mark); }
  void Shutdown() override;

 private:
  class Connection;
  class Call;

  static constexpr int kNoPort = 0, kNotKnown = -1;

  SocketListener(CallHandler handler, PayloadPlacement placement, TimerQueue& timers,
                 const SocketTransportOptions& options);

  absl::Status OpenUnixSocket();
  // At the network's host, whose own port it must not take: when the network listens.
  absl::Status OpenTcpPort();
  absl::Status Accept(int listening_fd);
  void OnCall(std::shared_ptr<IncomingCall> call);
  void TellSockets(IncomingCall& call) const;
  void OnConnected(int fd, const sockaddr_storage& client);

  const CallHandler handler_;
  const PayloadPlacement placement_;
  TimerQueue& timers_;
  const SocketTransportOptions options_;
  const Tickets tickets_;
  std::shared_ptr<TlsSettings> tls_;      // where TCP is encrypted
  std::string name_;                      // of the Unix socket; empty: there is none
  std::atomic<int> tcp_port_{kNotKnown};  // until network_ is there: no tickets are given before
  std::unique_ptr<SocketPoller> poller_;  // null: there are no sockets
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  const std::shared_ptr<Strangers> strangers_;
  absl::Mutex mutex_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Listener> network_;  // its calls use what is above
};

}  // namespace weir
