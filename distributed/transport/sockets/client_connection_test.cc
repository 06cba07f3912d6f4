// Why a client's connection ended.
#include "distributed/transport/sockets/client_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/sockets/introduction.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "distributed/transport/tls/byte_stream.h"
#include "distributed/transport/tls/shared_key.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

// A socket that could not connect: it tells the first of those who read and write why, and the others only
// that it has ended. A writer gives readers the time to come first.
class RefusedStream final : public ByteStream {
 public:
  absl::StatusOr<size_t> Read(const iovec*, int) override {
    const bool is_first = !was_read_.HasBeenNotified();
    if (is_first) was_read_.Notify();
    return absl::UnavailableError("the other side has closed the connection");
  }
  absl::StatusOr<size_t> Write(const iovec*, int) override {
    was_read_.WaitForNotificationWithTimeout(absl::Milliseconds(200));
    return absl::UnavailableError("the connection broke: Connection refused");
  }

 private:
  absl::Notification was_read_;
};

TEST(ClientConnectionTest, WhoCannotConnectIsToldWhy) {
  auto poller = SocketPoller::Start(ListeningThreads::Options(), absl::ZeroDuration()).value();
  TimerQueue timers;
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  close(fds[1]);  // it is readable at once, as a socket is that could not connect
  absl::Notification ended;
  absl::Status reason;
  const auto connection = std::make_shared<ClientConnection>(
      fds[0], std::make_unique<RefusedStream>(), /*is_local=*/false, *poller, timers, TaskName{"ps", 0},
      "127.0.0.1:9", SocketTransportOptions(), [&](bool was_welcome, const absl::Status& why) {
        EXPECT_FALSE(was_welcome);
        reason = why;
        ended.Notify();
      });
  const absl::Status begun = connection->Begin({.text = "a ticket", .key = std::string(kKeyBytes, 'k')});
  EXPECT_EQ(begun.code(), absl::StatusCode::kCancelled) << begun;
  ended.WaitForNotification();
  EXPECT_EQ(std::string(reason.message()), "the connection broke: Connection refused");
}

}  // namespace
}  // namespace weir
