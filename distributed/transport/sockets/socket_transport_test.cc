// What is peculiar to the socket transport: when calls leave the network, and what hostile bytes on its
// sockets do. The contract of a transport is tested in transport_test.cc.
#include "distributed/transport/sockets/socket_transport.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/sockets/test_socket_transport.h"
#include "distributed/transport/wire.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

TEST_P(SocketTransportTest, CallsLeaveTheNetworkAndComeBackToIt) {
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

TEST_P(SocketTransportTest, AListenerWithoutASocketIsCalledOverTheNetwork) {
  auto plain = network_
                   ->Listen("127.0.0.1:0",
                            [](std::shared_ptr<IncomingCall> call) { call->Reply(FrameWith("no socket")); })
                   .value();
  auto channel = transport_->Connect({"ps", 0}, plain->address()).value();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(CallAndWait(*channel, "/weir.T/Echo")->header, "no socket");
  EXPECT_FALSE(UsesSocket(*channel));
}

TEST_P(SocketTransportTest, TheSecretIsToldOnlyToThoseWhoHaveTheToken) {
  auto stranger = MakeNetwork("fedcba9876543210");
  const absl::Status status =
      CallAndWait(*stranger->Connect({"ps", 0}, listener_->address()).value(), kFindSocketMethod).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
}

TEST_P(SocketTransportTest, WhoeverHasNoTicketIsSentAway) {
  const std::string request = Request(1, "/weir.T/Echo", FrameWithAnEmptyPayload()), nonce(kNonceBytes, 'n');
  const std::string& ticket = sockets_.ticket.text;
  for (const std::string& bytes :
       {request, HelloWith("", nonce) + request, HelloWith(ticket, "") + request,
        HelloWith(ticket, nonce.substr(1)) + request, HelloWith(std::string(kMaxTicketBytes + 1, 'x'), nonce),
        Bytes(Kind::kHello, 0, ticket), HelloWith(ticket, nonce).substr(0, 30) + request,
        Bytes(Kind::kCancel, 0, ticket), std::string(2000, '\xff')}) {
    RawClient client(sockets_);
    client.Send(bytes);
    client.CloseForWriting();
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  EXPECT_EQ(num_placed_, 0);
  EXPECT_GE(AwaitRefused(6), 6);  // those that sent a whole message
  ExpectAlive();
}

TEST_P(SocketTransportTest, WhoeverDoesNotKnowTheKeyIsSentAway) {
  const std::string request = Request(1, "/weir.T/Echo", FrameWithAnEmptyPayload());
  std::string of_another_connection;
  {
    RawClient good(sockets_);
    ASSERT_TRUE(good.BeginToGreet());
    of_another_connection = good.introduction().ClientsProof();
  }
  const auto prove = [&](const Introduction& known) {
    Introduction wrong = known;
    wrong.ticket.key.back() ^= 1;
    return std::vector<std::string>{request,
                                    ProofWith("") + request,
                                    ProofWith(wrong.ClientsProof()) + request,
                                    ProofWith(known.ListenersProof()) + request,
                                    ProofWith(of_another_connection) + request,
                                    Bytes(Kind::kRequest, 0, known.ClientsProof()) + request};
  };
  for (size_t i = 0; i < 6; ++i) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.BeginToGreet());
    client.Send(prove(client.introduction()).at(i));
    EXPECT_TRUE(client.IsSentAway()) << i;
  }
  EXPECT_EQ(num_calls_, 0);
  EXPECT_EQ(num_placed_, 0);
  EXPECT_EQ(AwaitRefused(6), 6);
  ExpectAlive();
}

class SilentClientsTest : public SocketTransportTest {
 protected:
  SilentClientsTest() : SocketTransportTest(absl::Seconds(2)) {}
};

TEST_P(SilentClientsTest, AreSentAwayAndThereAreFewOfThem) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawClient>(sockets_));
  for (const auto& client : silent) EXPECT_TRUE(client->IsSentAway());
  ExpectAlive();
}

TEST_P(SocketTransportTest, MessagesThatAreNoneEndTheConnection) {
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
        Bytes(Kind::kRequest, 1, "", &frame), Bytes(Kind::kReply, 1, "", &frame),
        HelloWith(sockets_.ticket.text, std::string(kNonceBytes, 'n')), EncodePiece(1, 5)}) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.Greet());
    client.Send(bytes);
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_P(SocketTransportTest, ConnectionsThatEndInTheMiddleAreHarmless) {
  const std::string hello = HelloWith(sockets_.ticket.text, std::string(kNonceBytes, 'n'));
  for (size_t size = 0; size < hello.size(); size += 1 + size / 16) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.Send(absl::string_view(hello).substr(0, size)));
    client.CloseForWriting();
    EXPECT_TRUE(client.IsSentAway()) << size;
  }
  const std::string bytes = Request(1, "/weir.T/Echo", FrameWith("header", 300));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.Greet());
    ASSERT_TRUE(client.Send(absl::string_view(bytes).substr(0, size)));
    client.CloseForWriting();
    EXPECT_TRUE(client.IsSentAway()) << size;
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_P(SocketTransportTest, DamagedMessagesAreErrorsOrOtherMessages) {
  const std::string good = Request(1, "/weir.T/Echo", FrameWith("header", 40));
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips) bad[random() % bad.size()] ^= 1 << random() % 8;
    RawClient client(sockets_);
    ASSERT_TRUE(client.Greet());
    client.Send(bad);
    client.CloseForWriting();
    for (int messages = 0; client.Receive().ok(); ++messages) ASSERT_LT(messages, 2);
  }
  ExpectAlive();
}

TEST_P(SocketTransportTest, WhoeverDoesNotTakeTheAnswersIsNotReadAnyMore) {
  RawClient client(sockets_);
  ASSERT_TRUE(client.Greet());
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

TEST_P(SocketTransportTest, ACallNumberIsUsedOnceAtATime) {
  auto listener = transport_->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) {
    call->OnCancel([call] {});  // holds it until the client is gone
  });
  const FoundSockets sockets = FindSockets(*network_, (*listener)->address());
  RawClient client(sockets);
  const std::string request = Request(1, "/weir.T/Echo", FrameWith(""));
  ASSERT_TRUE(client.Greet());
  client.Send(request + request);
  EXPECT_TRUE(client.IsSentAway());
}

TEST_F(UnixSocketTest, WhatIsLentIsFetched) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  RawClient client(sockets_);
  ASSERT_TRUE(client.Greet(proof.data(), proof));
  ASSERT_TRUE(client.IsWelcome(/*and_may_lend=*/true));
  ASSERT_TRUE(client.Send(LendingRequest(lent.data(), lent.size())));
  const SocketMessage reply = client.Receive().value();
  EXPECT_EQ(reply.frame.payloads.at(0).bytes(), lent);
}

TEST_F(UnixSocketTest, LoansAreNotAcceptedFromThoseWhoCannotShowTheirMemory) {
  const std::string lent(100'000, 'l'), proof = "sixteen letters.";
  const char* const nowhere = reinterpret_cast<const char*>(uintptr_t{8});
  const std::pair<const char*, std::string> offers[] = {{nullptr, ""},
                                                        {lent.data(), proof},
                                                        {nowhere, proof},
                                                        {lent.data(), ""},
                                                        {lent.data(), lent.substr(0, 15)}};
  for (const auto& [address, memory] : offers) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.Greet(address, memory));
    EXPECT_TRUE(client.IsWelcome(/*and_may_lend=*/false));
    client.Send(LendingRequest(lent.data(), lent.size()));
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(UnixSocketTest, HostileLoansEndTheConnection) {
  const std::string proof = "sixteen letters.", lent(100'000, 'l');
  const char* const nowhere = reinterpret_cast<const char*>(uintptr_t{8});
  std::string also_sent = LendingRequest(lent.data(), lent.size());
  const uint64_t num_sent = 5;
  memcpy(also_sent.data() + 16, &num_sent, 8);  // bytes that belong to no payload
  for (const std::string& request :
       {LendingRequest(nowhere, 100'000), LendingRequest(lent.data(), uint64_t{1} << 62),
        LendingRequest(reinterpret_cast<const char*>(UINTPTR_MAX - 10), 1000), also_sent + "12345"}) {
    RawClient client(sockets_);
    ASSERT_TRUE(client.Greet(proof.data(), proof));
    ASSERT_TRUE(client.IsWelcome(/*and_may_lend=*/true));
    client.Send(request);
    EXPECT_TRUE(client.IsSentAway());
  }
  EXPECT_EQ(num_calls_, 0);
  ExpectAlive();
}

TEST_F(UnixSocketTest, WhatWasLentIsKeptUntilTheAnswerAndNoLonger) {
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

TEST_F(UnixSocketTest, NoOtherProgramsSocketIsConnectedTo) {
  const std::string name = "other-" + sockets_.name;
  const int other = ListenAtUnixSocket(name).value();
  std::atomic<int> num_asked{0};
  auto liar = network_
                  ->Listen("127.0.0.1:0",
                           [&](std::shared_ptr<IncomingCall> call) {
                             WireWriter answer;
                             answer.String(name);
                             answer.Unsigned(0);
                             answer.String("ticket");
                             answer.String(std::string(kKeyBytes, 'k'));
                             if (call->method() == kFindSocketMethod) ++num_asked;
                             call->Reply(FrameWith(answer.Take()));
                           })
                  .value();
  {
    auto channel = transport_->Connect({"ps", 0}, liar->address()).value();
    for (int i = 0; i < 1000 && num_asked == 0; ++i) EXPECT_TRUE(CallAndWait(*channel, "/weir.T/Echo").ok());
    EXPECT_EQ(num_asked, 1);
  }
  EXPECT_LT(accept(other, nullptr, nullptr), 0);  // it does not block
  EXPECT_EQ(errno, EAGAIN);
  close(other);
}

std::string NameOf(const ::testing::TestParamInfo<bool>& is_tcp) { return is_tcp.param ? "Tcp" : "Unix"; }
INSTANTIATE_TEST_SUITE_P(All, SocketTransportTest, ::testing::Bool(), NameOf);
INSTANTIATE_TEST_SUITE_P(All, SilentClientsTest, ::testing::Bool(), NameOf);

}  // namespace
}  // namespace weir
