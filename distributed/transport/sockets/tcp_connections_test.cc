// What is peculiar to TCP connections: who is connected to, what happens where nobody can be reached, and
// that large messages of both sides cannot keep each other waiting.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
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

using ::testing::ElementsAre;
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

constexpr char kTicket[] = "a ticket of 24 characters";

// A listener of the network that tells of a port which is not its own.
class Misleading {
 public:
  Misleading(Transport& network, int port, std::string name = "")
      : listener_(network
                      .Listen("127.0.0.1:0",
                              [this, port, name](std::shared_ptr<IncomingCall> call) {
                                if (call->method() != kFindSocketMethod) return call->Reply(Frame());
                                ++num_asked_;
                                WireWriter answer;
                                answer.String(name);
                                answer.Unsigned(static_cast<uint64_t>(port));
                                answer.String(kTicket);
                                answer.String(std::string(kKeyBytes, 'k'));
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
  shutdown(closed.fds[0], SHUT_RDWR);  // it is no listener any more, and nobody else gets its port
  Misleading listener(*network_, closed.port);
  Unreachable unreachable;
  auto transport = MakeSocketTransport(MakeNetwork(), unreachable.Options()).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  CallUntil(*channel, [&] { return !unreachable.lines().empty() && listener.num_asked() >= 4; });
  ASSERT_EQ(unreachable.lines().size(), 1u);
  EXPECT_THAT(unreachable.lines()[0],
              HasSubstr(absl::StrCat("ps:0 ", listener.address(), " port ", closed.port, ": ")));
  EXPECT_THAT(unreachable.lines()[0], HasSubstr("refused"));
  close(closed.fds[0]);
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

// Behind a forwarded port any process of that machine may be the one that listens.
TEST_F(TcpConnectionsTest, WhoListensWithoutTheKeyGetsNoCalls) {
  const ListeningSockets other = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, other.port);
  Unreachable unreachable;
  auto options = unreachable.Options();
  options.hello_timeout = absl::Seconds(60);
  auto transport = MakeSocketTransport(MakeNetwork(), options).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  const std::string welcome = Bytes(Kind::kWelcome, 0, std::string(1, '\0'));
  for (int round = 0; round < 4; ++round) {
    int fd = -1;
    for (int i = 0; i < 20'000 && fd < 0; ++i) {
      ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
      fd = accept(other.fds[0], nullptr, nullptr);
    }
    ASSERT_GE(fd, 0);
    Impostor impostor(fd);
    if (round == 0) impostor.Send(welcome);
    if (round == 1) impostor.Send(Bytes(Kind::kChallenge, 0, "no proof") + welcome);
    if (round >= 2) {
      EXPECT_FALSE(impostor.Answer(std::string(round == 2 ? 0 : kKeyBytes, 'x')));
    }
    // The client goes, and has said nothing but its hello.
    absl::StatusOr<SocketMessage> message = impostor.Receive();
    if (message.ok() && round < 2) {
      EXPECT_EQ(message->kind, Kind::kHello);
      message = impostor.Receive();
    }
    EXPECT_TRUE(absl::IsUnavailable(message.status())) << round;
    EXPECT_FALSE(UsesSocket(*channel));
    close(fd);
  }
  ASSERT_EQ(unreachable.lines().size(), 1u);
  EXPECT_THAT(unreachable.lines()[0], HasSubstr(absl::StrCat("port ", other.port, ": ")));
  close(other.fds[0]);
}

// Heartbeats, say, while all gradients of a step are queued for the same task; and what cancels a small call
// that has left before.
TEST_F(TcpConnectionsTest, ASmallCallPassesTheLargeOnesThatAreQueued) {
  const ListeningSockets other = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, other.port);
  auto transport = MakeSocketTransport(MakeNetwork(), OnlyTcp()).value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  int fd = -1;
  for (int i = 0; i < 20'000 && fd < 0; ++i) {
    ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
    fd = accept(other.fds[0], nullptr, nullptr);
  }
  ASSERT_GE(fd, 0);
  Impostor peer(fd);
  ASSERT_TRUE(peer.Answer(std::string(kKeyBytes, 'k')));
  for (int i = 0; i < 20'000 && !UsesSocket(*channel); ++i) absl::SleepFor(absl::Milliseconds(1));
  constexpr int kNumLarge = 4;
  absl::BlockingCounter left(kNumLarge + 2);
  const auto call = [&](Frame request) {
    return channel->Call("/weir.T/X", std::move(request), {absl::Now() + absl::Seconds(60)},
                         [&](absl::StatusOr<Frame>) { left.DecrementCount(); });
  };
  const std::shared_ptr<OutgoingCall> early = call(FrameWith("early", 100));
  std::vector<std::shared_ptr<OutgoingCall>> large;
  for (int i = 0; i < kNumLarge; ++i) large.push_back(call(FrameWith("large", 16 << 20)));
  call(FrameWith("small", 100));
  early->Cancel();
  large[0]->Cancel();  // has begun to leave: what cancels it stays behind it
  std::vector<std::string> order;
  while (order.size() < kNumLarge + 4) {
    const absl::StatusOr<SocketMessage> message = peer.Receive();
    ASSERT_TRUE(message.ok()) << message.status();
    order.push_back(message->kind == Kind::kCancel ? "cancel" : message->frame.header);
  }
  EXPECT_THAT(std::vector<std::string>(order.begin(), order.begin() + 4),
              ElementsAre("early", "small", "cancel", "large"));
  EXPECT_EQ(std::count(order.begin(), order.end(), "cancel"), 2);
  close(fd);
  left.Wait();
  close(other.fds[0]);
}

// As many as may wait at the Unix socket do: for a moment, so that it is no reason to use TCP for good.
TEST_F(TcpConnectionsTest, AUnixSocketWithoutRoomForOneMoreIsTriedAgain) {
  // Not the process id: tests that run side by side in sandboxes have the same.
  const std::string name = absl::StrCat(kSocketNamePrefix, "full-", std::random_device()());
  const int full = ListenAtUnixSocket(name).value();
  std::vector<int> waiting;
  absl::StatusOr<int> fd = ConnectToUnixSocket(name);
  for (; fd.ok(); fd = ConnectToUnixSocket(name)) waiting.push_back(*fd);
  EXPECT_TRUE(absl::IsResourceExhausted(fd.status())) << fd.status();
  const ListeningSockets tcp = ListenAtOneOf("127.0.0.1", PortRange()).value();
  Misleading listener(*network_, tcp.port, name);
  auto transport =
      MakeSocketTransport(MakeNetwork(), {.tcp_ports = PortRange(), .retry_delay = absl::Milliseconds(1)})
          .value();
  auto channel = transport->Connect({"ps", 0}, listener.address()).value();
  CallUntil(*channel, [&] { return listener.num_asked() >= 5; });
  EXPECT_LT(accept(tcp.fds[0], nullptr, nullptr), 0);
  for (const int client : waiting) close(client);
  for (int client = accept(full, nullptr, nullptr); client >= 0; client = accept(full, nullptr, nullptr)) {
    close(client);
  }
  int client = -1;
  CallUntil(*channel, [&] {
    if (client < 0) client = accept(full, nullptr, nullptr);
    return client >= 0;
  });
  EXPECT_LT(accept(tcp.fds[0], nullptr, nullptr), 0);
  close(client);
  close(full);
  close(tcp.fds[0]);
}

TEST_F(TcpConnectionsTest, WhoeverOpensManyKeepsNobodyOut) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (size_t i = 0; i < Options().max_strangers; ++i)
    silent.push_back(std::make_unique<RawClient>(sockets_));
  // While all places are taken.
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawClient>(sockets_));
    ExpectAlive();
  }
}

TEST_F(TcpConnectionsTest, NoLoansAreAcceptedOverTcp) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  RawClient client(sockets_);
  ASSERT_TRUE(client.Greet(proof.data(), proof));
  EXPECT_TRUE(client.IsWelcome(/*and_may_lend=*/false));
  client.Send(LendingRequest(lent.data(), lent.size()));
  EXPECT_TRUE(client.IsSentAway());
  EXPECT_EQ(num_calls_, 0);
}

TEST_F(TcpConnectionsTest, LargeRequestsAndLargeAnswersDoNotWaitForEachOther) {
  auto transport = MakeSocketTransport(MakeNetwork(), OnlyTcp({.max_queued_bytes = 1 << 20})).value();
  ExpectEchoes(*transport, 20, 8 << 20);
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
  for (int round = 0; round < 3; ++round) {
    int fd = -1;
    for (int i = 0; i < 20'000 && fd < 0; ++i) {
      ASSERT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
      fd = accept(front.fds[0], nullptr, nullptr);
    }
    ASSERT_GE(fd, 0);
    Impostor impostor(fd);
    ASSERT_TRUE(impostor.Answer(std::string(kKeyBytes, 'k')));
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
