#include "distributed/transport/host/host_transport.h"

#include <utility>

#include "distributed/timing/timer_queue.h"
#include "distributed/transport/host/host_channel.h"
#include "distributed/transport/host/host_listener.h"
#include "distributed/transport/host/socket_poller.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

class HostTransport final : public Transport {
 public:
  HostTransport(std::unique_ptr<Transport> network, std::unique_ptr<SocketPoller> poller,
                const HostTransportOptions& options)
      : network_(std::move(network)), options_(options), poller_(std::move(poller)) {}

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, network_->Connect(peer, address));
    return std::make_unique<HostChannel>(std::move(channel), *poller_, timers_, options_);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return HostListener::Start(*network_, address, std::move(handler), std::move(placement), timers_,
                               options_);
  }

 private:
  const std::unique_ptr<Transport> network_;
  const HostTransportOptions options_;
  const std::unique_ptr<SocketPoller> poller_;  // for replies
  TimerQueue timers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeHostTransport(std::unique_ptr<Transport> network,
                                                             const HostTransportOptions& options) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SocketPoller> poller,
                        SocketPoller::Start(ListeningThreads::Options(), options.poll_before_sleep));
  return std::make_unique<HostTransport>(std::move(network), std::move(poller), options);
}

}  // namespace weir
