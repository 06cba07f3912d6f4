// For tests: a client that may send anything to a socket transport's socket, and somebody else who listens
// there. Each is used by one thread.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/sockets/introduction.h"
#include "distributed/transport/sockets/socket_message.h"
#include "distributed/transport/sockets/socket_transport.h"
#include "distributed/transport/tcp/tcp_socket.h"
#include "distributed/transport/tls/byte_stream.h"
#include "distributed/transport/tls/shared_key.h"
#include "distributed/transport/wire.h"
#include "gtest/gtest.h"

namespace weir {

using Kind = SocketMessage::Kind;

inline constexpr char kToken[] = "0123456789abcdef";

inline std::unique_ptr<Transport> MakeNetwork(const std::string& token = kToken) {
  GrpcOptions options;
  options.security.token = token;
  return MakeGrpcTransport(options).value();
}

inline absl::StatusOr<Frame> CallAndWait(Channel& channel, absl::string_view method, Frame request = {}) {
  absl::StatusOr<Frame> result = absl::UnknownError("no reply");
  absl::Notification done;
  channel.Call(method, std::move(request), {absl::Now() + absl::Seconds(20)},
               [&](absl::StatusOr<Frame> reply) {
                 result = std::move(reply);
                 done.Notify();
               });
  done.WaitForNotification();
  return result;
}

inline bool AwaitSocket(Channel& channel) {
  for (int i = 0; i < 10'000 && !UsesSocket(channel); ++i) {
    EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod).ok());
    absl::SleepFor(absl::Milliseconds(1));
  }
  // An answer that came through the socket shows whether the listener borrows.
  EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod).ok());
  return UsesSocket(channel);
}

inline std::string Bytes(Kind kind, uint64_t call, std::string text, const Frame* frame = nullptr) {
  SocketMessage message;
  message.kind = kind;
  message.call = call;
  message.text = std::move(text);
  message.has_frame = frame != nullptr;
  if (frame != nullptr) message.frame = *frame;
  std::string bytes = EncodeSocketMessage(message);
  for (const Payload& payload : message.frame.payloads) bytes += std::string(payload.bytes());
  return bytes;
}

inline std::string Request(uint64_t call, absl::string_view method, const Frame& frame) {
  WireWriter text;
  text.String(method);
  text.Deadline(absl::InfiniteFuture(), absl::Now());
  return Bytes(Kind::kRequest, call, text.Take(), &frame);
}

// Of which the listener may ask where its payload belongs.
inline Frame FrameWithAnEmptyPayload() {
  Frame frame;
  frame.payloads.push_back(Payload::OfString(""));
  return frame;
}

inline Frame FrameWith(std::string header, size_t payload_bytes = 0) {
  Frame frame;
  frame.header = std::move(header);
  if (payload_bytes > 0) frame.payloads.push_back(Payload::OfString(std::string(payload_bytes, 'p')));
  return frame;
}

// Calls through sockets to somebody who gives all bytes back. With small queues each side has more to send
// than it may keep while it does not read.
inline void ExpectEchoes(Transport& transport, int num_calls, size_t payload_bytes) {
  auto listener =
      transport
          .Listen("127.0.0.1:0",
                  [](std::shared_ptr<IncomingCall> call) { call->Reply(std::move(call->request())); })
          .value();
  auto channel = transport.Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*channel));
  const Frame request = FrameWith("", payload_bytes);
  absl::BlockingCounter left(num_calls);
  for (int i = 0; i < num_calls; ++i) {
    channel->Call("/weir.T/Echo", request, {absl::Now() + absl::Seconds(60)},
                  [&](absl::StatusOr<Frame> reply) {
                    EXPECT_TRUE(reply.ok()) << reply.status();
                    left.DecrementCount();
                  });
  }
  left.Wait();
}

// The messages of a client that introduces itself, as it should or not.
inline std::string HelloWith(absl::string_view ticket, absl::string_view nonce) {
  WireWriter text;
  text.String(ticket);
  text.String(nonce);
  return Bytes(Kind::kHello, 0, text.Take());
}
inline std::string ProofWith(absl::string_view proof, const char* address = nullptr,
                             absl::string_view memory = "") {
  WireWriter text;
  text.String(proof);
  text.Unsigned(reinterpret_cast<uintptr_t>(address));
  text.String(memory);
  return Bytes(Kind::kProof, 0, text.Take());
}

// What a listener tells its callers.
struct FoundSockets {
  std::string name;
  int port = 0;
  Ticket ticket;
};
inline FoundSockets FindSockets(Transport& network, const std::string& address) {
  const Frame answer = CallAndWait(*network.Connect({"ps", 0}, address).value(), kFindSocketMethod).value();
  WireReader reader(answer.header);
  FoundSockets found;
  found.name = std::string(reader.String());
  found.port = static_cast<int>(reader.Unsigned());
  found.ticket.text = std::string(reader.String());
  found.ticket.key = std::string(reader.String());
  EXPECT_TRUE(reader.Finish("the answer").ok());
  return found;
}

// A client that may send anything.
class RawClient {
 public:
  explicit RawClient(const FoundSockets& sockets)
      : fd_(sockets.name.empty() ? BeginToConnect("ipv4:127.0.0.1:1", sockets.port).value()
                                 : ConnectToUnixSocket(sockets.name).value()) {
    introduction_.ticket = sockets.ticket;
    introduction_.client_nonce = RandomBytes(kNonceBytes);
  }
  ~RawClient() { close(fd_); }

  bool Send(absl::string_view bytes, int timeout_ms = 20'000) {
    while (!bytes.empty()) {
      if (!IsReady(POLLOUT, timeout_ms)) return false;
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  // Says hello, and takes the challenge: whether it came from who gave the ticket.
  bool BeginToGreet() {
    Send(HelloWith(introduction_.ticket.text, introduction_.client_nonce));
    const SocketMessage challenge = ReceiveAny().value_or(SocketMessage());
    WireReader reader(challenge.text);
    introduction_.listener_nonce = std::string(reader.String());
    const std::string proof(reader.String());
    return challenge.kind == Kind::kChallenge && reader.Finish("a challenge").ok() &&
           introduction_.IsListenersProof(proof);
  }
  const Introduction& introduction() const { return introduction_; }
  // Introduces itself. With an address, where `memory` is said to be found, it offers to lend.
  bool Greet(const char* address = nullptr, absl::string_view memory = "") {
    return BeginToGreet() && Send(ProofWith(introduction_.ClientsProof(), address, memory));
  }
  bool IsReady(short events, int timeout_ms) {
    pollfd wanted{fd_, events, 0};
    return poll(&wanted, 1, timeout_ms) == 1 && (wanted.revents & events) != 0;
  }
  // The next message; an error when the server has closed.
  absl::StatusOr<SocketMessage> ReceiveAny() {
    while (true) {
      if (!IsReady(POLLIN, 20'000)) return absl::DeadlineExceededError("nothing came");
      absl::StatusOr<bool> whole =
          reader_.Read(stream_, [](const SocketMessage&, size_t, size_t) { return Payload(); });
      if (!whole.ok()) return whole.status();
      if (*whole) return reader_.Take();
    }
  }
  // The next one after the welcome.
  absl::StatusOr<SocketMessage> Receive() {
    absl::StatusOr<SocketMessage> message = ReceiveAny();
    if (message.ok() && message->kind == Kind::kWelcome) return ReceiveAny();
    return message;
  }
  bool IsWelcome(bool and_may_lend) {
    const SocketMessage message = ReceiveAny().value_or(SocketMessage());
    return message.kind == Kind::kWelcome && message.text == std::string(1, and_may_lend ? 1 : 0);
  }
  bool IsSentAway() { return absl::IsUnavailable(Receive().status()); }
  void CloseForWriting() { shutdown(fd_, SHUT_WR); }

 private:
  const int fd_;
  Introduction introduction_;
  PlainStream stream_{fd_};
  SocketMessageReader reader_{SocketMessageReader::kMaxTextBytes, uint64_t{1} << 30};
};

inline SocketTransportOptions OnlyTcp(SocketTransportOptions options = {}) {
  options.unix_sockets = false;
  options.tcp_ports = PortRange();
  return options;
}

// A listener with one kind of socket.
class SocketFixture {
 protected:
  // Clients that say nothing are sent away after `hello_timeout`; others have it on a busy machine too.
  explicit SocketFixture(bool is_tcp, absl::Duration hello_timeout = absl::Seconds(20))
      : is_tcp_(is_tcp), hello_timeout_(hello_timeout) {}

  SocketTransportOptions Options() {
    SocketTransportOptions options{
        .on_refused = [this](Refusal, absl::string_view, absl::string_view) { ++num_refused_; },
        .max_message_bytes = 1 << 20,
        .hello_timeout = hello_timeout_,
        .retry_delay = absl::Milliseconds(1)};
    return is_tcp_ ? OnlyTcp(options) : options;
  }
  void OnCall(std::shared_ptr<IncomingCall> call) {
    ++num_calls_;
    if (call->method() == "/weir.T/Large") return call->Reply(FrameWith("", 1'000'000));
    call->Reply(std::move(call->request()));
  }
  // How many were refused, when it is as many or long has passed: who is sent away sees it before it is said.
  int AwaitRefused(int count) const {
    for (int i = 0; i < 60'000 && num_refused_ < count; ++i) absl::SleepFor(absl::Milliseconds(1));
    return num_refused_;
  }
  // The server still serves a client that keeps to the protocol.
  void ExpectAlive() {
    RawClient good(sockets_);
    ASSERT_TRUE(good.Greet());
    ASSERT_TRUE(good.Send(Request(7, "/weir.T/Echo", FrameWith("alive", 100'000))));
    const SocketMessage reply = good.Receive().value();
    EXPECT_EQ(reply.call, 7u);
    EXPECT_EQ(reply.frame.header, "alive");
    EXPECT_EQ(reply.frame.payloads.at(0).num_bytes(), 100'000u);
  }

  const bool is_tcp_;
  const absl::Duration hello_timeout_;
  std::atomic<int> num_calls_{0};
  std::atomic<int> num_refused_{0};
  std::atomic<int> num_placed_{0};
  std::unique_ptr<Transport> network_ = MakeNetwork();
  std::unique_ptr<Transport> transport_ = MakeSocketTransport(MakeNetwork(), Options()).value();
  std::unique_ptr<Listener> listener_ =
      transport_
          ->Listen(
              "127.0.0.1:0", [this](std::shared_ptr<IncomingCall> call) { OnCall(std::move(call)); },
              [this](absl::string_view, absl::string_view, size_t, size_t) {
                ++num_placed_;
                return Payload();
              })
          .value();
  FoundSockets sockets_ = FindSockets(*network_, listener_->address());
};

// What holds for both kinds; whether it is TCP.
class SocketTransportTest : public SocketFixture, public ::testing::TestWithParam<bool> {
 protected:
  explicit SocketTransportTest(absl::Duration hello_timeout = absl::Seconds(20))
      : SocketFixture(GetParam(), hello_timeout) {}
};

// What is peculiar to one kind.
class UnixSocketTest : public SocketFixture, public ::testing::Test {
 protected:
  UnixSocketTest() : SocketFixture(/*is_tcp=*/false) {}
};
class TcpConnectionsTest : public SocketFixture, public ::testing::Test {
 protected:
  TcpConnectionsTest() : SocketFixture(/*is_tcp=*/true) {}
};

// A request that lends its only payload.
inline std::string LendingRequest(const char* address, uint64_t num_bytes) {
  SocketMessage message;
  message.kind = Kind::kRequest;
  message.call = 1;
  WireWriter text;
  text.String("/weir.T/Echo");
  text.Deadline(absl::InfiniteFuture(), absl::Now());
  message.text = text.Take();
  message.has_frame = true;
  message.frame.payloads.push_back(Payload::OfBuffer(nullptr, const_cast<char*>(address), num_bytes));
  message.loans.push_back({reinterpret_cast<uintptr_t>(address), num_bytes});
  return EncodeSocketMessage(message);
}

// Another program that listens at the port, and knows how connections begin.
class Impostor {
 public:
  explicit Impostor(int fd) : fd_(fd) {}

  // Answers the hello, and welcomes the client. False when that has gone before.
  bool Answer(std::string key) {
    absl::StatusOr<SocketMessage> hello = Receive();
    if (!hello.ok()) return false;
    WireReader reader(hello->text);
    Introduction introduction;
    introduction.ticket = {std::string(reader.String()), std::move(key)};
    introduction.client_nonce = std::string(reader.String());
    introduction.listener_nonce = std::string(kNonceBytes, 'n');
    WireWriter challenge;
    challenge.String(introduction.listener_nonce);
    challenge.String(introduction.ListenersProof());
    Send(Bytes(Kind::kChallenge, 0, challenge.Take()));
    if (!Receive().ok()) return false;
    Send(Bytes(Kind::kWelcome, 0, std::string(1, '\0')));
    return true;
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  absl::StatusOr<SocketMessage> Receive() {
    while (true) {
      pollfd readable{fd_, POLLIN, 0};
      if (poll(&readable, 1, 20'000) != 1) return absl::DeadlineExceededError("nothing came");
      const absl::StatusOr<bool> whole =
          reader_.Read(stream_, [](const SocketMessage&, size_t, size_t) { return Payload(); });
      if (!whole.ok()) return whole.status();
      if (*whole) return reader_.Take();
    }
  }

 private:
  const int fd_;
  PlainStream stream_{fd_};
  SocketMessageReader reader_{SocketMessageReader::kMaxTextBytes, uint64_t{1} << 30};
};

}  // namespace weir
