// The client side of the host transport (host_transport.h): a channel of the network, and a connection to the
// listener's socket while there is one.
//
// Made by the transport, owned by the caller; borrows the transport's poller and timers. Its destructor
// closes the connection and waits until the `done` of every call has returned. Thread safety: all methods.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/host/host_transport.h"
#include "distributed/transport/host/socket_poller.h"

namespace weir {

class HostChannel final : public Channel {
 public:
  // Borrows poller and timers.
  HostChannel(std::unique_ptr<Channel> network, SocketPoller& poller, TimerQueue& timers,
              const HostTransportOptions& options);
  ~HostChannel() override;

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                     Done done) override;
  const TaskName& peer() const override { return peer_; }
  const std::string& address() const override { return address_; }

  bool uses_socket() const;

 private:
  class Connection;

  // Null when calls have to go over the network.
  std::shared_ptr<Connection> FindConnection() const;
  // Asks the listener for its socket, unless a question is under way or the last one was a moment ago.
  void AskForSocket();
  void OnAnswer(const absl::StatusOr<Frame>& answer);
  absl::StatusOr<std::shared_ptr<Connection>> Connect(absl::string_view name, absl::string_view secret);

  const TaskName peer_;
  const std::string address_;
  SocketPoller& poller_;
  TimerQueue& timers_;
  const HostTransportOptions options_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mutex_);
  // Lost connections, whose calls may still be ending.
  std::vector<std::shared_ptr<Connection>> closing_ ABSL_GUARDED_BY(mutex_);
  bool is_asking_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time ask_again_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::unique_ptr<Channel> network_;  // its calls use what is above
};

}  // namespace weir
