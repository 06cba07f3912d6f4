// One suite for every transport: the contract of transport.h.
#include "distributed/transport/transport.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "distributed/transport/sockets/socket_transport.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

struct TransportKind {
  const char* name;
  std::function<std::unique_ptr<Transport>()> make;
};

std::unique_ptr<Transport> MakeGrpc(GrpcOptions options = {}) { return MakeGrpcTransport(options).value(); }

class TransportTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  TransportTest() : transport_(GetParam().make()) {}

  std::unique_ptr<Listener> Listen(CallHandler handler, const std::string& address = "127.0.0.1:0") {
    return transport_->Listen(address, std::move(handler)).value();
  }
  std::unique_ptr<Channel> Connect(const std::string& address) {
    return transport_->Connect({"ps", 0}, address).value();
  }
  std::unique_ptr<Transport> transport_;
};

TEST_P(TransportTest, FramesArriveWholeAndAligned) {
  auto listener = Listen(Echo);
  auto channel = Connect(listener->address());
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{}, {0}, {1, 2, 3}, {4095, 4096, 4097}, {100'000, 3, 5'000'000, 0, 70'000}}) {
    const Frame sent = MakeFrame("header", sizes);
    const Frame got = CallAndWait(*channel, "/weir.Test/Echo", sent, Within(absl::Seconds(20))).value();
    EXPECT_EQ(got.header, "header");
    ASSERT_EQ(got.payloads.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i)
      EXPECT_TRUE(got.payloads[i].bytes() == sent.payloads[i].bytes()) << i;
  }
}

TEST_P(TransportTest, HandlersSeeMethodDeadlineAndForeignBytes) {
  auto listener = Listen([](std::shared_ptr<IncomingCall> call) {
    Frame reply;
    const bool has_deadline = call->deadline() < absl::Now() + absl::Seconds(30);
    reply.payloads.push_back(
        Payload::OfString(absl::StrCat(call->method(), " ", has_deadline, " ", call->request().header.size(),
                                       " ", call->request().payloads[0].bytes())));
    call->Reply(std::move(reply));
  });
  auto channel = Connect(listener->address());
  Frame request;
  request.payloads.push_back(Payload::OfString("protobuf"));
  EXPECT_EQ(CallAndWait(*channel, "/tensorflow.MasterService/X", request, Within(absl::Seconds(20)))
                .value()
                .payloads[0]
                .bytes(),
            "/tensorflow.MasterService/X 1 0 protobuf");
  EXPECT_EQ(CallAndWait(*channel, "/weir.A/B", request).value().payloads[0].bytes(),
            "/weir.A/B 0 0 protobuf");
}

TEST_P(TransportTest, ErrorsOfHandlersArriveAsTheyAre) {
  auto listener = Listen([](std::shared_ptr<IncomingCall> call) {
    if (call->method() == "/weir.T/Drop") return;
    if (call->method() == "/weir.T/Unavailable")
      return call->Reply(absl::UnavailableError("a third party is gone"));
    call->Reply(absl::NotFoundError("no plan 7"));
    call->Reply(Frame());  // a second reply is dropped
  });
  auto channel = Connect(listener->address());
  EXPECT_EQ(CallAndWait(*channel, "/weir.T/X", {}).status(), absl::NotFoundError("no plan 7"));
  EXPECT_EQ(CallAndWait(*channel, "/weir.T/Unavailable", {}).status(),
            absl::UnavailableError("a third party is gone"));
  const absl::Status dropped = CallAndWait(*channel, "/weir.T/Drop", {}).status();
  EXPECT_EQ(dropped.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Text(dropped), HasSubstr("/weir.T/Drop: the server gave no reply"));
}

TEST_P(TransportTest, ManyCallsAtOnceAndRepliesFromOtherThreads) {
  std::vector<std::thread> threads;
  absl::Mutex mutex;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    absl::MutexLock lock(&mutex);
    threads.emplace_back([call] { Echo(call); });
  });
  auto channel = Connect(listener->address());
  absl::BlockingCounter left(100);
  std::atomic<int> good{0};
  for (int i = 0; i < 100; ++i) {
    channel->Call("/weir.T/E", MakeFrame(absl::StrCat(i), {10}), Within(absl::Seconds(20)),
                  [&, i](absl::StatusOr<Frame> reply) {
                    if (reply.ok() && reply->header == absl::StrCat(i)) ++good;
                    left.DecrementCount();
                  });
  }
  left.Wait();
  EXPECT_EQ(good, 100);
  listener->Shutdown();
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportTest, DeadlineNamesPeerAndMethodAndTellsTheHandler) {
  absl::Mutex mutex;
  std::vector<std::shared_ptr<IncomingCall>> held;
  size_t num_cancelled = 0;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    if (call->method() != "/weir.T/Slow") return Echo(std::move(call));
    {
      absl::MutexLock lock(&mutex);
      held.push_back(call);
    }
    call->OnCancel([&] {
      absl::MutexLock lock(&mutex);
      ++num_cancelled;
    });
  });
  auto channel = Connect(listener->address());
  ASSERT_TRUE(CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Minutes(1))).ok());
  const auto num_held = [&] {
    absl::MutexLock lock(&mutex);
    return held.size();
  };
  // On a busy machine the first deadlines may be over before the handler is there.
  for (absl::Duration patience = absl::Milliseconds(200); num_held() == 0 && patience < absl::Minutes(1);
       patience *= 2) {
    const absl::Time start = absl::Now();
    const absl::Status status = CallAndWait(*channel, "/weir.T/Slow", {}, Within(patience)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Text(status),
                HasSubstr(absl::StrCat("ps:0 at ", listener->address(), ": /weir.T/Slow did not answer")));
    EXPECT_LT(absl::Now() - start, absl::Minutes(1) + patience);
  }
  absl::MutexLock lock(&mutex);
  ASSERT_FALSE(held.empty());
  const auto are_told = [&] { return num_cancelled == held.size(); };
  EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&are_told), absl::Minutes(1)));
  held[0]->Reply(Frame());  // too late, and harmless
}

TEST_P(TransportTest, CancelReachesBothSides) {
  absl::Notification arrived, cancelled, done;
  std::shared_ptr<IncomingCall> held;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    held = call;
    call->OnCancel([&] { cancelled.Notify(); });
    arrived.Notify();
  });
  auto channel = Connect(listener->address());
  absl::Status status;
  auto call = channel->Call("/weir.T/Slow", {}, {}, [&](absl::StatusOr<Frame> reply) {
    status = reply.status();
    done.Notify();
  });
  arrived.WaitForNotification();
  call->Cancel();
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(absl::Minutes(1)));
  bool told_at_once = false;
  held->OnCancel([&] { told_at_once = true; });
  EXPECT_TRUE(told_at_once);
}

TEST_P(TransportTest, NobodyListensAndShutdown) {
  const ReservedPorts ports = ReservedPorts::Take(1).value();  // nobody else listens there meanwhile
  const std::string address = absl::StrCat("127.0.0.1:", ports[0]);
  auto listener = Listen(Echo, address);
  auto channel = Connect(address);
  ASSERT_TRUE(CallAndWait(*channel, "/weir.T/E", {}).ok());
  listener->Shutdown();
  listener->Shutdown();
  const absl::Status refused = CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Minutes(1))).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(Text(refused), HasSubstr(absl::StrCat("ps:0 at ", address)));
  // Whoever is patient finds the server that comes back at the same address.
  std::thread restart([&] {
    absl::SleepFor(absl::Milliseconds(200));
    listener = Listen(Echo, address);
  });
  CallOptions patient = Within(absl::Minutes(1));
  patient.wait_for_ready = true;
  EXPECT_TRUE(CallAndWait(*channel, "/weir.T/E", {}, patient).ok());
  restart.join();
}

TEST_P(TransportTest, ShutdownEndsCallsUnderWay) {
  std::shared_ptr<IncomingCall> held;
  absl::Notification arrived, done;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    held = call;
    arrived.Notify();
  });
  auto channel = Connect(listener->address());
  absl::Status status;
  channel->Call("/weir.T/Slow", {}, {}, [&](absl::StatusOr<Frame> reply) {
    status = reply.status();
    done.Notify();
  });
  arrived.WaitForNotification();
  listener->Shutdown();
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
  listener.reset();
  held->Reply(Frame());
}

TEST_P(TransportTest, ADestroyedChannelHasNoCallsLeft) {
  std::vector<std::shared_ptr<IncomingCall>> held;
  absl::Mutex mutex;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    absl::MutexLock lock(&mutex);
    held.push_back(call);
  });
  auto channel = Connect(listener->address());
  std::atomic<int> num_done{0};
  for (int i = 0; i < 5; ++i) {
    channel->Call("/weir.T/Slow", {}, {}, [&](absl::StatusOr<Frame> reply) {
      EXPECT_TRUE(absl::IsCancelled(reply.status())) << reply.status();
      ++num_done;
    });
  }
  channel.reset();
  EXPECT_EQ(num_done, 5);
}

TEST_P(TransportTest, LongHandlersLeaveAThreadThatListens) {
  constexpr int kNumLong = 50;  // more than there are threads, so that some wait for their turn
  absl::Notification release;
  std::atomic<int> num_begun{0};
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    if (call->method() != "/weir.T/Long") return Echo(std::move(call));
    call->Compute([&, call] {
      ++num_begun;
      release.WaitForNotification();
      Echo(call);
    });
  });
  auto channel = Connect(listener->address());
  absl::BlockingCounter left(kNumLong);
  std::atomic<int> num_good{0};
  for (int i = 0; i < kNumLong; ++i) {
    channel->Call("/weir.T/Long", {}, Within(absl::Seconds(60)), [&](absl::StatusOr<Frame> reply) {
      num_good += reply.ok();
      left.DecrementCount();
    });
    EXPECT_TRUE(CallAndWait(*channel, "/weir.T/Quick", {}, Within(absl::Seconds(20))).ok()) << i;
  }
  EXPECT_GT(num_begun, 4);
  EXPECT_LT(num_begun, kNumLong);
  release.Notify();
  left.Wait();
  EXPECT_EQ(num_good, kNumLong);
}

TEST_P(TransportTest, WorkThatWaitsForItsTurnIsDroppedByShutdown) {
  absl::Notification release;
  std::atomic<int> num_begun{0}, num_come{0};
  const auto count = std::make_shared<int>();  // each work that has not been dropped counts
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    call->Compute([&, call, counted = count] {
      ++num_begun;
      release.WaitForNotification();
      Echo(call);
    });
    ++num_come;
  });
  auto channel = Connect(listener->address());
  constexpr int kNumLong = 50;
  absl::BlockingCounter left(kNumLong);
  for (int i = 0; i < kNumLong; ++i) {
    channel->Call("/weir.T/Long", {}, Within(absl::Seconds(60)), [&](absl::StatusOr<Frame> reply) {
      EXPECT_FALSE(reply.ok());
      left.DecrementCount();
    });
  }
  // Each has come: its work has begun, and is not over, or waits.
  for (int i = 0; i < 20'000 && num_come + num_begun < kNumLong; ++i) absl::SleepFor(absl::Milliseconds(1));
  std::thread shutdown([&] { listener->Shutdown(); });
  left.Wait();  // nobody waits for the handlers but Shutdown
  const int num_begun_at_shutdown = num_begun;
  for (int i = 0; i < 20'000 && count.use_count() - 1 > num_begun; ++i) absl::SleepFor(absl::Milliseconds(1));
  release.Notify();
  shutdown.join();
  EXPECT_LT(num_begun_at_shutdown, kNumLong);
  EXPECT_LT(num_begun, kNumLong);
  listener.reset();
}

TEST_P(TransportTest, ACallWithADeadlineInCenturiesIsAnswered) {
  auto listener = Listen(Echo);
  auto channel = Connect(listener->address());
  for (int i = 0; i < 20; ++i) {
    const absl::Status status =
        CallAndWait(*channel, "/weir.T/Echo", {}, Within(absl::Milliseconds(INT64_MAX))).status();
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(TransportTest, PortsInUseAndBadAddressesAreNamed) {
  auto listener = Listen(Echo);
  const absl::Status in_use = transport_->Listen(listener->address(), Echo).status();
  EXPECT_EQ(in_use.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(in_use), HasSubstr(absl::StrCat("cannot listen at ", listener->address())));
  EXPECT_THAT(Text(in_use), HasSubstr("in use"));
  EXPECT_EQ(transport_->Listen("nonsense", Echo).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(transport_->Connect({"ps", 0}, "nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

// A socket transport whose channels use sockets from the first call of a test on, if there is a listener.
class SocketsAtOnce final : public Transport {
 public:
  explicit SocketsAtOnce(std::unique_ptr<Transport> sockets) : sockets_(std::move(sockets)) {}
  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    auto channel = sockets_->Connect(peer, address);
    EXPECT_TRUE(!channel.ok() || AwaitSocket(**channel));
    return channel;
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return sockets_->Listen(address, std::move(handler), std::move(placement));
  }

  static bool AwaitSocket(Channel& channel) {
    EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod, {}, Within(absl::Seconds(20))).ok());
    for (int i = 0; i < 2000 && !UsesSocket(channel); ++i) absl::SleepFor(absl::Milliseconds(1));
    return UsesSocket(channel);
  }

 private:
  const std::unique_ptr<Transport> sockets_;
};

std::unique_ptr<Transport> MakeSockets(const SocketTransportOptions& options) {
  return std::make_unique<SocketsAtOnce>(MakeSocketTransport(MakeGrpc(), options).value());
}

INSTANTIATE_TEST_SUITE_P(
    All, TransportTest,
    ::testing::Values(
        TransportKind{"Inproc", [] { return MakeInprocTransport(MakeInprocNetwork()); }},
        TransportKind{"Grpc", [] { return MakeGrpc(); }},
        TransportKind{"Unix", [] { return MakeSockets({}); }},
        TransportKind{"UnixWithoutLoans", [] { return MakeSockets({.lent_bytes = 0}); }},
        TransportKind{"Tcp", [] { return MakeSockets({.unix_sockets = false, .tcp_ports = PortRange()}); }},
        // Faults that never hit change nothing.
        TransportKind{
            "Fault",
            [] { return std::make_unique<FaultTransport>(MakeInprocTransport(MakeInprocNetwork())); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weir
