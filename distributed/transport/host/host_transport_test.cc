// What is peculiar to the host transport: when calls leave the network, and what hostile bytes on its socket
// do. The contract of a transport is tested in transport_test.cc.
#include "distributed/transport/host/host_transport.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/host/socket_message.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using Kind = SocketMessage::Kind;

constexpr char kToken[] = "0123456789abcdef";

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Transport> MakeNetwork(const std::string& token = kToken) {
  GrpcOptions options;
  options.security.token = token;
  return MakeGrpcTransport(options).value();
}

absl::StatusOr<Frame> CallAndWait(Channel& channel, absl::string_view method, Frame request = {}) {
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

bool AwaitSocket(Channel& channel) {
  for (int i = 0; i < 10'000 && !UsesSocket(channel); ++i) {
    EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod).ok());
    absl::SleepFor(absl::Milliseconds(1));
  }
  // With the answer through the socket it is known whether it borrows.
  EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod).ok());
  return UsesSocket(channel);
}

std::string Bytes(Kind kind, uint64_t call, std::string text, const Frame* frame = nullptr) {
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

std::string Request(uint64_t call, absl::string_view method, const Frame& frame) {
  WireWriter text;
  text.String(method);
  text.Deadline(absl::InfiniteFuture());
  return Bytes(Kind::kRequest, call, text.Take(), &frame);
}

Frame FrameWith(std::string header, size_t payload_bytes = 0) {
  Frame frame;
  frame.header = std::move(header);
  if (payload_bytes > 0) frame.payloads.push_back(Payload::OfString(std::string(payload_bytes, 'p')));
  return frame;
}

std::string HelloWith(absl::string_view secret, const char* address = nullptr, absl::string_view proof = "") {
  WireWriter text;
  text.String(secret);
  text.Unsigned(reinterpret_cast<uintptr_t>(address));
  text.String(proof);
  return Bytes(Kind::kHello, 0, text.Take());
}

// A client that says whatever it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& name) : fd_(ConnectToUnixSocket(name).value()) {}
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
  bool IsReady(short events, int timeout_ms) {
    pollfd wanted{fd_, events, 0};
    return poll(&wanted, 1, timeout_ms) == 1 && (wanted.revents & events) != 0;
  }
  // The next message; an error when the server has closed.
  absl::StatusOr<SocketMessage> Receive() {
    while (true) {
      if (!IsReady(POLLIN, 20'000)) return absl::DeadlineExceededError("nothing came");
      absl::StatusOr<bool> whole =
          reader_.Read(fd_, [](const SocketMessage&, size_t, size_t) { return Payload(); });
      if (!whole.ok()) return whole.status();
      if (*whole) return reader_.Take();
    }
  }
  bool IsSentAway() { return absl::IsUnavailable(Receive().status()); }
  void CloseForWriting() { shutdown(fd_, SHUT_WR); }

 private:
  const int fd_;
  SocketMessageReader reader_{SocketMessageReader::kMaxTextBytes, uint64_t{1} << 30};
};

class HostTransportTest : public ::testing::Test {
 protected:
  HostTransportTest() {
    const Frame answer =
        CallAndWait(*network_->Connect({"ps", 0}, listener_->address()).value(), kFindSocketMethod).value();
    WireReader reader(answer.header);
    name_ = std::string(reader.String());
    secret_ = std::string(reader.String());
    EXPECT_TRUE(reader.Finish("the answer").ok());
  }

  void OnCall(std::shared_ptr<IncomingCall> call) {
    ++num_calls_;
    if (call->method() == "/weir.T/Large") return call->Reply(FrameWith("", 1'000'000));
    call->Reply(std::move(call->request()));
  }
  // With an address, where `proof` is said to be found, it offers to lend.
  std::string Hello(const char* address = nullptr, absl::string_view proof = "") const {
    return HelloWith(secret_, address, proof);
  }
  // The server serves whoever behaves.
  void ExpectAlive() {
    RawClient good(name_);
    ASSERT_TRUE(good.Send(Hello() + Request(7, "/weir.T/Echo", FrameWith("alive", 100'000))));
    const SocketMessage reply = good.Receive().value();
    EXPECT_EQ(reply.call, 7u);
    EXPECT_EQ(reply.frame.header, "alive");
    EXPECT_EQ(reply.frame.payloads.at(0).num_bytes(), 100'000u);
  }

  std::atomic<int> num_calls_{0};
  std::unique_ptr<Transport> network_ = MakeNetwork();
  std::unique_ptr<Transport> transport_ =
      MakeHostTransport(MakeNetwork(), {.max_message_bytes = 1 << 20,
                                        .hello_timeout = absl::Milliseconds(300),
                                        .retry_delay = absl::Milliseconds(1)})
          .value();
  std::unique_ptr<Listener> listener_ =
      transport_
          ->Listen("127.0.0.1:0", [this](std::shared_ptr<IncomingCall> call) { OnCall(std::move(call)); })
          .value();
  std::string name_, secret_;
};

TEST_F(HostTransportTest, CallsLeaveTheNetworkAndComeBackToIt) {
  auto channel = transport_->Connect({"ps", 0}, listener_->address()).value();
  EXPECT_FALSE(UsesSocket(*channel));
  ASSERT_TRUE(AwaitSocket(*channel));
  EXPECT_EQ(CallAndWait(*channel, "/weir.T/Echo", FrameWith("a"))->header, "a");
  EXPECT_EQ(CallAndWait(*channel, "/tensorflow.X/Y", FrameWith("", 3))->payloads.at(0).num_bytes(), 3u);
  const std::string address = listener_->address();
  listener_.reset();
  EXPECT_TRUE(absl::IsUnavailable(CallAndWait(*channel, "/weir.T/Echo").status()));
  listener_ =
      transport_->Listen(address, [this](std::shared_ptr<IncomingCall> call) { OnCall(std::move(call)); })
          .value();
  for (int i = 0; i < 1000 && !CallAndWait(*channel, "/weir.T/Echo").ok(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(AwaitSocket(*channel));
}

TEST_F(HostTransportTest, AListenerWithoutASocketIsCalledOverTheNetwork) {
  auto plain = network_
                   ->Listen("127.0.0.1:0",
                            [](std::shared_ptr<IncomingCall> call) { call->Reply(FrameWith("no socket")); })
                   .value();
  auto channel = transport_->Connect({"ps", 0}, plain->address()).value();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(CallAndWait(*channel, "/weir.T/Echo")->header, "no socket");
  EXPECT_FALSE(UsesSocket(*channel));
}

TEST_F(HostTransportTest, TheSecretIsToldOnlyToThoseWhoHaveTheToken) {
  auto stranger = MakeNetwork("fedcba9876543210");
  const absl::Status status =
      CallAndWait(*stranger->Connect({"ps", 0}, listener_->address()).value(), kFindSocketMethod).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(HostTransportTest, WhoeverDoesNotKnowTheSecretIsSentAway) {
  const std::string request = Request(1, "/weir.T/Echo", FrameWith(""));
  std::string wrong = secret_;
  wrong.back() ^= 1;
  for (const std::string& bytes :
       {request, HelloWith(wrong) + request, HelloWith("") + request, HelloWith(secret_.substr(1)) + request,
        HelloWith(std::string(300, 'x')), Bytes(Kind::kHello, 0, secret_), Hello().substr(0, 30) + request,
        Bytes(Kind::kCancel, 0, secret_), std::string(1000, '\xff')}) {
    RawClient client(name_);
    client.Send(bytes);
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(HostTransportTest, WhoeverIsSilentIsSentAwayAndThereAreFewOfThem) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawClient>(name_));
  for (const auto& client : silent) EXPECT_TRUE(client->IsSentAway());
  ExpectAlive();
}

TEST_F(HostTransportTest, MessagesThatAreNoneEndTheConnection) {
  std::string huge_text = Request(1, "/weir.T/Echo", FrameWith("")), huge_payload = huge_text;
  const uint32_t text_bytes = UINT32_MAX;
  const uint64_t payload_bytes = UINT64_MAX - 1000;
  memcpy(huge_text.data() + 4, &text_bytes, 4);
  memcpy(huge_payload.data() + 16, &payload_bytes, 8);
  const Frame large = FrameWith("", (1 << 20) + 1);  // above max_message_bytes
  const Frame frame = FrameWith("");
  for (const std::string& bytes :
       {huge_text, huge_payload, Request(1, "/weir.T/Echo", large), std::string(24, '\0'),
        Request(1, "/tensorflow.MasterService/RunStep", frame), Bytes(Kind::kRequest, 1, "/weir.T/Echo"),
        Bytes(Kind::kRequest, 1, "", &frame), Bytes(Kind::kReply, 1, "", &frame), Hello()}) {
    RawClient client(name_);
    client.Send(Hello() + bytes);
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(HostTransportTest, ConnectionsThatEndInTheMiddleAreHarmless) {
  const std::string bytes = Hello() + Request(1, "/weir.T/Echo", FrameWith("header", 300));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    RawClient client(name_);
    ASSERT_TRUE(client.Send(absl::string_view(bytes).substr(0, size)));
    client.CloseForWriting();
    EXPECT_TRUE(client.IsSentAway()) << size;
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(HostTransportTest, DamagedMessagesAreErrorsOrOtherMessages) {
  const std::string good = Request(1, "/weir.T/Echo", FrameWith("header", 40));
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips) bad[random() % bad.size()] ^= 1 << random() % 8;
    RawClient client(name_);
    client.Send(Hello() + bad);
    client.CloseForWriting();
    for (int messages = 0; client.Receive().ok(); ++messages) ASSERT_LT(messages, 2);
  }
  ExpectAlive();
}

TEST_F(HostTransportTest, WhoeverDoesNotTakeTheAnswersIsNotReadAnyMore) {
  RawClient client(name_);
  ASSERT_TRUE(client.Send(Hello()));
  const std::string request = Request(0, "/weir.T/Large", FrameWith("", 64 << 10));
  // 64 MiB of answers may wait, a thousand would be taken: what is sent beyond waits in the socket.
  for (uint64_t i = 0; i < 1000; ++i) {
    std::string next = request;
    memcpy(next.data() + 8, &i, sizeof(i));
    if (!client.Send(next, /*timeout_ms=*/500)) break;
  }
  EXPECT_GE(num_calls_, 60);
  EXPECT_LT(num_calls_, 200);
}

TEST_F(HostTransportTest, ACallNumberIsUsedOnceAtATime) {
  auto listener = transport_->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) {
    call->OnCancel([call] {});  // holds it until the client is gone
  });
  const Frame answer =
      CallAndWait(*network_->Connect({"ps", 0}, (*listener)->address()).value(), kFindSocketMethod).value();
  WireReader reader(answer.header);
  RawClient client(std::string(reader.String()));
  const std::string request = Request(1, "/weir.T/Echo", FrameWith(""));
  client.Send(HelloWith(reader.String()) + request + request);
  EXPECT_TRUE(client.IsSentAway());
}

// A request that lends its only payload.
std::string LendingRequest(const char* address, uint64_t num_bytes) {
  SocketMessage message;
  message.kind = Kind::kRequest;
  message.call = 1;
  WireWriter text;
  text.String("/weir.T/Echo");
  text.Deadline(absl::InfiniteFuture());
  message.text = text.Take();
  message.has_frame = true;
  message.frame.payloads.push_back(Payload::OfBuffer(nullptr, const_cast<char*>(address), num_bytes));
  message.loans.push_back({reinterpret_cast<uintptr_t>(address), num_bytes});
  return EncodeSocketMessage(message);
}

TEST_F(HostTransportTest, WhatIsLentIsFetched) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  RawClient client(name_);
  ASSERT_TRUE(client.Send(Hello(proof.data(), proof)));
  ASSERT_EQ(client.Receive()->kind, Kind::kBorrows);
  ASSERT_TRUE(client.Send(LendingRequest(lent.data(), lent.size())));
  const SocketMessage reply = client.Receive().value();
  EXPECT_EQ(reply.frame.payloads.at(0).bytes(), lent);
}

TEST_F(HostTransportTest, LoansAreNotAcceptedFromThoseWhoCannotShowTheirMemory) {
  const std::string lent(100'000, 'l'), proof = "sixteen letters.";
  const char* const nowhere = reinterpret_cast<const char*>(uintptr_t{8});
  for (const std::string& hello : {Hello(), Hello(lent.data(), proof), Hello(nowhere, proof)}) {
    RawClient client(name_);
    client.Send(hello + LendingRequest(lent.data(), lent.size()));
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(HostTransportTest, HostileLoansEndTheConnection) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  const char* const nowhere = reinterpret_cast<const char*>(uintptr_t{8});
  std::string also_sent = LendingRequest(lent.data(), lent.size());
  const uint64_t num_sent = 5;
  memcpy(also_sent.data() + 16, &num_sent, 8);  // bytes that belong to no payload
  for (const std::string& request :
       {LendingRequest(nowhere, 100'000), LendingRequest(lent.data(), uint64_t{1} << 62),
        LendingRequest(reinterpret_cast<const char*>(UINTPTR_MAX - 10), 1000), also_sent + "12345"}) {
    RawClient client(name_);
    client.Send(Hello(proof.data(), proof));
    ASSERT_EQ(client.Receive()->kind, Kind::kBorrows);
    client.Send(request);
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(HostTransportTest, WhatWasLentIsKeptUntilTheAnswerAndNoLonger) {
  absl::Mutex mutex;
  std::shared_ptr<IncomingCall> held;
  auto listener = transport_
                      ->Listen("127.0.0.1:0",
                               [&](std::shared_ptr<IncomingCall> call) {
                                 absl::MutexLock lock(&mutex);
                                 held = std::move(call);
                               })
                      .value();
  auto channel = transport_->Connect({"ps", 0}, listener->address()).value();
  ASSERT_TRUE(AwaitSocket(*channel));
  const auto await = [&](auto condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(1));
    return condition();
  };
  Tensor tensor(DType::kFloat32, {100'000});
  absl::Notification done;
  Frame request;
  request.payloads.push_back(Payload::OfTensor(tensor));
  auto call = channel->Call("/weir.T/Hold", std::move(request), {}, [&](absl::StatusOr<Frame> reply) {
    EXPECT_TRUE(absl::IsCancelled(reply.status()));
    done.Notify();
  });
  ASSERT_TRUE(await([&] {
    absl::MutexLock lock(&mutex);
    return held != nullptr;
  }));
  call->Cancel();
  done.WaitForNotification();
  EXPECT_FALSE(tensor.has_exclusive_buffer());  // the server might have been reading it
  {
    absl::MutexLock lock(&mutex);
    held->Reply(Frame());
  }
  EXPECT_TRUE(await([&] { return tensor.has_exclusive_buffer(); }));
}

TEST(SocketMessage, EveryCutAndRandomDamageIsSurvived) {
  const std::string good = Request(1, "/weir.T/Echo", FrameWith("header", 40));
  std::mt19937 random(2);
  int num_whole = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    if (i < static_cast<int>(good.size())) bytes.resize(i);
    if (i > static_cast<int>(good.size())) bytes[random() % bytes.size()] ^= 1 << random() % 8;
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ASSERT_EQ(send(ends[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    close(ends[0]);
    SocketMessageReader reader(1000, 1000);
    const absl::StatusOr<bool> whole =
        reader.Read(ends[1], [](const SocketMessage&, size_t, size_t) { return Payload(); });
    close(ends[1]);
    if (i < static_cast<int>(good.size())) {
      EXPECT_TRUE(absl::IsUnavailable(whole.status())) << i;
    } else if (i == static_cast<int>(good.size())) {
      EXPECT_TRUE(whole.ok() && *whole);
    }
    num_whole += whole.ok() && *whole;
  }
  EXPECT_GT(num_whole, 100);  // damage in a header or a payload is not for this layer to see
}

TEST(SocketMessage, LimitsAreNamed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const std::string bytes = Request(1, "/weir.T/Echo", FrameWith("", 2000));
  ASSERT_EQ(send(ends[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  SocketMessageReader reader(1000, 1000);
  const absl::Status status =
      reader.Read(ends[1], [](const SocketMessage&, size_t, size_t) { return Payload(); }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(status), HasSubstr("payloads of 2000 bytes is above the limits of 1000 and 1000"));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weir
