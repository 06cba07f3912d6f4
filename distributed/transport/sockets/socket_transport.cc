#include "distributed/transport/sockets/socket_transport.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/sockets/socket_channel.h"
#include "distributed/transport/sockets/socket_listener.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Says once for each address what may be told again and again.
class OncePerAddress {
 public:
  explicit OncePerAddress(SocketTransportOptions::OnUnreachable tell) : tell_(std::move(tell)) {}

  void operator()(const TaskName& peer, absl::string_view address, int port, absl::string_view why) {
    {
      absl::MutexLock lock(&mutex_);
      if (!told_.emplace(address).second) return;
    }
    if (tell_) tell_(peer, address, port, why);
  }

 private:
  const SocketTransportOptions::OnUnreachable tell_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

SocketTransportOptions TellingOnce(SocketTransportOptions options) {
  options.on_unreachable = [once = std::make_shared<OncePerAddress>(std::move(options.on_unreachable))](
                               const TaskName& peer, absl::string_view address, int port,
                               absl::string_view why) { (*once)(peer, address, port, why); };
  return options;
}

class SocketTransport final : public Transport {
 public:
  SocketTransport(std::unique_ptr<Transport> network, std::unique_ptr<SocketPoller> poller,
                  std::shared_ptr<TlsSettings> tls, const SocketTransportOptions& options)
      : network_(std::move(network)),
        options_(TellingOnce(options)),
        poller_(std::move(poller)),
        tls_(std::move(tls)) {}

  // ResourceExhausted when nothing would ever end its calls at their deadlines.
  const absl::Status& status() const { return timers_.status(); }

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, network_->Connect(peer, address));
    return std::make_unique<SocketChannel>(std::move(channel), *poller_, timers_, tls_.get(), options_);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return SocketListener::Start(*network_, address, std::move(handler), std::move(placement), timers_,
                                 options_);
  }

 private:
  const std::unique_ptr<Transport> network_;
  const SocketTransportOptions options_;
  const std::unique_ptr<SocketPoller> poller_;  // for replies
  const std::shared_ptr<TlsSettings> tls_;      // of channels; null where TCP is not encrypted
  TimerQueue timers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeSocketTransport(std::unique_ptr<Transport> network,
                                                               const SocketTransportOptions& options) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SocketPoller> poller,
                        SocketPoller::Start(ListeningThreads::Options(), options.poll_before_sleep));
  std::shared_ptr<TlsSettings> tls;
  if (options.encrypts_tcp) {
    WEIR_ASSIGN_OR_RETURN(tls, TlsSettings::OfClient());
  }
  auto transport =
      std::make_unique<SocketTransport>(std::move(network), std::move(poller), std::move(tls), options);
  WEIR_RETURN_IF_ERROR(transport->status());
  return transport;
}

}  // namespace weir
