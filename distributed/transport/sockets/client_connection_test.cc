// A client's connection: why it ended, and in which order it says what.
#include "distributed/transport/sockets/client_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/timing/listening_threads.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/sockets/introduction.h"
#include "distributed/transport/sockets/socket_message.h"
#include "distributed/transport/sockets/socket_poller.h"
#include "distributed/transport/sockets/test_socket_transport.h"
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

// A call may be given up while its request is still being written down, which takes a while for a long
// header: an earlier call's deadline looks at all of them. A cancellation that came first would cancel
// nothing.
TEST(ClientConnectionTest, ACancellationComesAfterWhatItCancels) {
  const std::string key(kKeyBytes, 'k');
  auto poller = SocketPoller::Start(ListeningThreads::Options(), absl::ZeroDuration()).value();
  TimerQueue timers;
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const auto connection = std::make_shared<ClientConnection>(
      fds[0], std::make_unique<PlainStream>(fds[0]), /*is_local=*/false, *poller, timers, TaskName{"ps", 0},
      "127.0.0.1:9", SocketTransportOptions(), [](bool, const absl::Status&) {});
  ASSERT_TRUE(connection->Begin({.text = "a ticket", .key = key}).ok());
  Impostor listener(fds[1]);
  ASSERT_TRUE(listener.Answer(key));
  for (int i = 0; i < 10'000 && !connection->is_welcome(); ++i) absl::SleepFor(absl::Milliseconds(1));
  const auto call = [&](Frame request, absl::Time deadline) {
    Channel::Done done = [](absl::StatusOr<Frame>) {};
    EXPECT_NE(connection->Call("/weir.T/X", &request, {deadline}, &done), nullptr);
  };
  Frame large = FrameWith(std::string(size_t{60} << 20, 'h'));
  call(Frame(), absl::Now() + absl::Milliseconds(5));
  call(std::move(large), absl::Now());
  call(Frame(), absl::InfiniteFuture());
  using Came = std::pair<Kind, uint64_t>;
  std::vector<Came> came;
  const auto find = [&](Kind kind, uint64_t number) {
    return std::find(came.begin(), came.end(), Came(kind, number));
  };
  const auto has = [&](Kind kind, uint64_t number) { return find(kind, number) != came.end(); };
  while (!has(Kind::kRequest, 3) || has(Kind::kRequest, 2) != has(Kind::kCancel, 2)) {
    const absl::StatusOr<SocketMessage> message = listener.Receive();
    ASSERT_TRUE(message.ok()) << message.status();
    came.emplace_back(message->kind, message->call);
  }
  EXPECT_LE(find(Kind::kRequest, 2), find(Kind::kCancel, 2));
  connection->CloseAndWait(absl::CancelledError("the end of the test"));
  close(fds[1]);
}

}  // namespace
}  // namespace weir
