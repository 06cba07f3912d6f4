// The server side of the host transport (host_transport.h): a listener of the network, and a socket beside
// it.
//
// Made by the transport, owned by the caller; borrows the network and the transport's timers. Handlers run on
// the threads of the network's listener and of the socket's poller. Thread safety: all methods, but Shutdown
// not from a handler.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/host/host_transport.h"
#include "distributed/transport/host/socket_poller.h"

namespace weir {

class HostListener final : public Listener {
 public:
  // Borrows network and timers.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(Transport& network, const std::string& address,
                                                         CallHandler handler, PayloadPlacement placement,
                                                         TimerQueue& timers,
                                                         const HostTransportOptions& options);
  ~HostListener() override;

  const std::string& address() const override { return network_->address(); }
  void Shutdown() override;

 private:
  class Acceptor;
  class Connection;
  class Call;

  HostListener(CallHandler handler, PayloadPlacement placement, TimerQueue& timers,
               const HostTransportOptions& options);

  absl::Status OpenSocket();
  void OnCall(std::shared_ptr<IncomingCall> call);
  void OnConnected(int fd);

  // How many connections may be open that have not shown the secret yet; further ones are closed at once.
  static constexpr int kMaxStrangers = 64;

  const CallHandler handler_;
  const PayloadPlacement placement_;
  TimerQueue& timers_;
  const HostTransportOptions options_;
  const std::string name_;
  const std::string secret_;
  std::unique_ptr<SocketPoller> poller_;
  std::shared_ptr<Acceptor> acceptor_;  // null: there is no socket
  const std::shared_ptr<std::atomic<int>> num_strangers_ = std::make_shared<std::atomic<int>>(0);
  absl::Mutex mutex_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Listener> network_;  // its calls use what is above
};

}  // namespace weir
