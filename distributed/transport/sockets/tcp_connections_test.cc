// What is peculiar to TCP connections: who is connected to, what happens where nobody can be reached, and
// that large messages of both sides cannot keep each other waiting.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/sockets/strangers.h"
#include "distributed/transport/sockets/test_socket_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST_F(TcpConnectionsTest, UnixSocketsComeFirst) {
  auto transport = MakeSocketTransport(MakeNetwork(), {.tcp_ports = PortRange()}).value();
  auto listener =
      transport
          ->Listen("127.0.0.1:0",
                   [](std::shared_ptr<IncomingCall> call) { call->Reply(FrameWith(call->client())); })
          .value();
  auto near = transport->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*near));
  EXPECT_THAT(CallAndWait(*near, "/weir.T/X")->header, HasSubstr("unix:"));
  auto elsewhere = MakeSocketTransport(MakeNetwork(), OnlyTcp()).value();
  auto far = elsewhere->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*far));
  EXPECT_THAT(CallAndWait(*far, "/weir.T/X")->header, HasSubstr("tcp:127.0.0.1:"));
}

TEST_F(TcpConnectionsTest, EachSideMaySwitchThemOff) {
  auto without = MakeSocketTransport(MakeNetwork(), {.unix_sockets = false}).value();
  auto channel = without->Connect({"ps", 0}, listener_->address()).value();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
  EXPECT_FALSE(UsesSocket(*channel));
  auto listener =
      without->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) { call->Reply(Frame()); })
          .value();
  auto other = transport_->Connect({"ps", 0}, listener->address()).value();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(CallAndWait(*other, "/weir.T/Echo").ok());
  EXPECT_FALSE(UsesSocket(*other));
}

TEST_F(TcpConnectionsTest, APortThatIsAskedForAndTakenIsAnError) {
  auto transport =
      MakeSocketTransport(MakeNetwork(), {.tcp_ports = PortRange{sockets_.port, sockets_.port}}).value();
  const absl::Status status = transport->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall>) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(sockets_.port)));
}

// A listener of the network that tells of a port which is not its own.
class Misleading {
 public:
  Misleading(Transport& network, int port)
      : listener_(network
                      .Listen("127.0.0.1:0",
                              [this, port](std::shared_ptr<IncomingCall> call) {
                                if (call->method() != kFindSocketMethod) return call->Reply(Frame());
                                ++num_asked_;
                                WireWriter answer;
                                answer.String("");
                                answer.Unsigned(static_cast<uint64_t>(port));
                                answer.String("secret");
                                call->Reply(FrameWith(answer.Take()));
                              })
                      .value()) {}
  const std::string& address() const { return listener_->address(); }
  int num_asked() const { return num_asked_; }

 private:
  std::atomic<int> num_asked_{0};
  const std::unique_ptr<Listener> listener_;
};

// The lines of on_unreachable.
class Unreachable {
 public:
  SocketTransportOptions Options() {
    return OnlyTcp(
        {.on_unreachable =
             [this](const TaskName& peer, absl::string_view address, int port, absl::string_view why) {
               absl::MutexLock lock(&mutex_);
               lines_.push_back(absl::StrCat(peer.ToString(), " ", address, " port ", port, ": ", why));
             },
         .hello_timeout = absl::Milliseconds(100),
         .retry_delay = absl::Milliseconds(1)});
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// Calls until `is_enough`; all of them are answered over the network.
template <typename Condition>
void CallUntil(Channel& channel, Condition is_enough) {
  for (int i = 0; i < 20'000 && !is_enough(); ++i) {
    ASSERT_TRUE(CallAndWait(channel, "/weir.T/Echo").ok());
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(is_enough());
  EXPECT_FALSE(UsesSocket(channel));
}

TEST_F(TcpConnectionsTest, WhereNobodyListensTheNetworkDoesItAllAndOneLineSaysSo) {
  const ListeningSockets closed = ListenAtOneOf("127.0.0.1", PortRange()).value();
  close(closed.fds[0]);
  Misleading listener(*network_, closed.port);
  Unreachable unreachable;
  auto transport = MakeSocketTransport(MakeNetwork(), unreachable.Options()).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  CallUntil(*channel, [&] { return !unreachable.lines().empty() && listener.num_asked() >= 4; });
  ASSERT_EQ(unreachable.lines().size(), 1u);
  EXPECT_THAT(unreachable.lines()[0],
              HasSubstr(absl::StrCat("ps:0 ", listener.address(), " port ", closed.port, ": ")));
  EXPECT_THAT(unreachable.lines()[0], HasSubstr("refused"));
}

TEST_F(TcpConnectionsTest, WhoNeverAnswersIsGivenUp) {
  const ListeningSockets silent = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, silent.port);
  Unreachable unreachable;
  auto transport = MakeSocketTransport(MakeNetwork(), unreachable.Options()).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  CallUntil(*channel, [&] { return !unreachable.lines().empty(); });
  EXPECT_THAT(unreachable.lines()[0], HasSubstr("it has not answered for 100ms"));
  close(silent.fds[0]);
}

TEST_F(TcpConnectionsTest, AnotherProgramAtThePortGetsNothingButTheHello) {
  const ListeningSockets other = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, other.port);
  Unreachable unreachable;
  auto transport = MakeSocketTransport(MakeNetwork(), unreachable.Options()).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  int fd = -1;
  for (int i = 0; i < 20'000 && fd < 0; ++i) {
    ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo", FrameWith("private")).ok());
    fd = accept(other.fds[0], nullptr, nullptr);
  }
  ASSERT_GE(fd, 0);
  const std::string answer(1000, 'x');
  ASSERT_EQ(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo", FrameWith("private")).ok());
  EXPECT_FALSE(UsesSocket(*channel));
  std::string got;
  char buffer[4096];
  for (ssize_t count = 1; count > 0;) {
    pollfd readable{fd, POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, 20'000), 1);
    count = recv(fd, buffer, sizeof(buffer), 0);
    if (count > 0) got.append(buffer, static_cast<size_t>(count));
  }
  EXPECT_EQ(got.find("private"), std::string::npos);
  EXPECT_LT(got.size(), 200u);
  close(fd);
  close(other.fds[0]);
}

TEST_F(TcpConnectionsTest, WhoeverOpensManyKeepsNobodyOut) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (size_t i = 0; i < Strangers::kMost; ++i) silent.push_back(std::make_unique<RawClient>(sockets_));
  // While all places are taken.
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawClient>(sockets_));
    ExpectAlive();
  }
}

TEST_F(TcpConnectionsTest, NoLoansAreAcceptedOverTcp) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  RawClient client(sockets_);
  client.Send(Hello(proof.data(), proof));
  EXPECT_TRUE(client.IsWelcome(/*and_may_lend=*/false));
  client.Send(LendingRequest(lent.data(), lent.size()));
  EXPECT_TRUE(client.IsSentAway());
  EXPECT_EQ(num_calls_, 0);
}

// Each side has more to send than it may keep while it does not read.
TEST_F(TcpConnectionsTest, LargeRequestsAndLargeAnswersDoNotWaitForEachOther) {
  auto transport = MakeSocketTransport(MakeNetwork(), OnlyTcp({.max_queued_bytes = 1 << 20})).value();
  auto listener =
      transport
          ->Listen("127.0.0.1:0",
                   [](std::shared_ptr<IncomingCall> call) { call->Reply(std::move(call->request())); })
          .value();
  auto channel = transport->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*channel));
  const Frame request = FrameWith("", 8 << 20);
  constexpr int kNumCalls = 20;
  absl::BlockingCounter left(kNumCalls);
  for (int i = 0; i < kNumCalls; ++i) {
    channel->Call("/weir.T/Echo", request, {absl::Now() + absl::Seconds(60)},
                  [&](absl::StatusOr<Frame> reply) {
                    EXPECT_TRUE(reply.ok()) << reply.status();
                    left.DecrementCount();
                  });
  }
  left.Wait();
}

TEST_F(TcpConnectionsTest, PayloadsAreReadIntoTheirPlaces) {
  std::string place(5'000'000, ' ');
  auto listener = transport_
                      ->Listen(
                          "127.0.0.1:0",
                          [&](std::shared_ptr<IncomingCall> call) {
                            if (call->request().payloads.empty()) return call->Reply(Frame());
                            EXPECT_EQ(call->request().payloads[0].data(), place.data());
                            call->Reply(Frame());
                          },
                          [&](absl::string_view, absl::string_view, size_t, size_t num_bytes) {
                            return Payload::OfBuffer(nullptr, place.data(), num_bytes);
                          })
                      .value();
  auto transport = MakeSocketTransport(MakeNetwork(), OnlyTcp()).value();
  auto large = transport->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*large));
  EXPECT_TRUE(CallAndWait(*large, "/weir.T/Put", FrameWith("", 1'000'000)).ok());
  EXPECT_EQ(place[0], 'p');
  EXPECT_EQ(place[999'999], 'p');
  EXPECT_EQ(place[1'000'000], ' ');
}

TEST_F(TcpConnectionsTest, AConnectionThatIsResetFailsItsCallsAndIsMadeAgain) {
  const ListeningSockets front = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, front.port);
  auto transport =
      MakeSocketTransport(MakeNetwork(), OnlyTcp({.retry_delay = absl::Milliseconds(1)})).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  const std::string welcome = Bytes(Kind::kWelcome, 0, std::string(1, '\0'));
  for (int round = 0; round < 3; ++round) {
    int fd = -1;
    for (int i = 0; i < 20'000 && fd < 0; ++i) {
      ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
      fd = accept(front.fds[0], nullptr, nullptr);
    }
    ASSERT_GE(fd, 0);
    ASSERT_EQ(send(fd, welcome.data(), welcome.size(), 0), static_cast<ssize_t>(welcome.size()));
    for (int i = 0; i < 20'000 && !UsesSocket(*channel); ++i) absl::SleepFor(absl::Milliseconds(1));
    absl::Status status;
    absl::Notification failed;
    channel->Call("/weir.T/Hold", FrameWith("", 100), {absl::Now() + absl::Seconds(60)},
                  [&](absl::StatusOr<Frame> reply) {
                    status = reply.status();
                    failed.Notify();
                  });
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
    failed.WaitForNotification();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/weir.T/Hold"));
  }
  close(front.fds[0]);
}

}  // namespace
}  // namespace weir
