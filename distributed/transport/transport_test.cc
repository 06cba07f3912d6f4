// One suite for every transport (contract of transport.h), then what is peculiar to gRPC and to faults; and
// the codecs.
#include "distributed/transport/transport.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/security.h"
#include "distributed/transport/bundle.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/host/host_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// ----------------------------------------------------------------------------------------------------------
// codecs

Tensor RoundTrip(const Tensor& tensor) {
  WireWriter writer;
  std::vector<Payload> payloads;
  EXPECT_TRUE(EncodeTensor(tensor, &writer, &payloads).ok());
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  return DecodeTensor(&reader, payloads, &next).value();
}

TEST(Bundle, TensorsOfAllKindsRoundTrip) {
  const Tensor floats = Tensor::From<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(RoundTrip(floats).SharesBufferWith(floats));
  EXPECT_EQ(RoundTrip(floats.Slice(1, 2)).ToString(), "float[1,2] {3, 4}");
  EXPECT_EQ(
      RoundTrip(Tensor::Vector<std::string>({"", "a", std::string(300, 'x')})).flat<std::string>()[2].size(),
      300u);
  EXPECT_EQ(RoundTrip(Tensor(DType::kFloat32, {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(RoundTrip(Tensor(DType::kString, {0})).num_elements(), 0);
  EXPECT_FALSE(RoundTrip(Tensor()).is_valid());
  Tensor handle(DType::kResource, {});
  handle.flat<ResourceHandle>()[0] = {"/job:ps/replica:0/task:0/device:CPU:0", "c", "var", "Variable",
                                      nullptr};
  EXPECT_EQ(RoundTrip(handle).scalar<ResourceHandle>().name, "var");
}

TEST(Bundle, EntriesKeepEdgeAndDeadness) {
  WireWriter writer;
  std::vector<Payload> payloads;
  const std::vector<BundleEntry> entries = {
      {7, false, Tensor::Scalar<int32_t>(5)}, {INT32_MAX, true, Tensor()}, {0, false, Tensor::Scalar("s")}};
  ASSERT_TRUE(EncodeBundle(entries, &writer, &payloads).ok());
  const std::string header = writer.Take();
  WireReader reader(header);
  const auto decoded = DecodeBundle(&reader, payloads).value();
  ASSERT_EQ(decoded.size(), 3u);
  EXPECT_EQ(decoded[0].edge, 7);
  EXPECT_EQ(decoded[0].tensor.scalar<int32_t>(), 5);
  EXPECT_EQ(decoded[1].edge, INT32_MAX);
  EXPECT_TRUE(decoded[1].is_dead);
  EXPECT_EQ(decoded[2].tensor.scalar<std::string>(), "s");

  payloads.push_back(Payload::OfString("belongs to no tensor"));
  WireReader again(header);
  EXPECT_THAT(std::string(DecodeBundle(&again, payloads).status().message()),
              HasSubstr("a bundle of 3 tensors came with 3 payloads"));
}

TEST(Bundle, VariantsAreRefused) {
  WireWriter writer;
  std::vector<Payload> payloads;
  // A variant tensor cannot be made yet, so the dtype is smuggled into the header.
  writer.Unsigned(static_cast<uint64_t>(DType::kVariant));
  writer.Unsigned(0);
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  EXPECT_THAT(Text(DecodeTensor(&reader, payloads, &next).status()), HasSubstr("unknown dtype 21"));
}

TEST(Bundle, LyingHeadersAreRefusedBeforeAllocation) {
  struct Case {
    std::vector<uint64_t> numbers;  // dtype, rank, dims...
    size_t payload_bytes;
    const char* error;
  };
  const Case cases[] = {
      {{1, 1, uint64_t{1} << 62}, 4, "float[4611686018427387904] came with 4 bytes"},
      {{1, 2, uint64_t{1} << 40, uint64_t{1} << 40}, 4, ""},
      {{1, 1, 2}, 4, "float[2] came with 4 bytes"},
      {{7, 1, uint64_t{1} << 40}, 4, "came with 4 bytes"},
      {{20, 1, 2}, 4, "came with 4 bytes"},
      {{1, 255}, 4, "shape of a tensor is malformed"},
      {{99, 0}, 4, "unknown dtype 99"},
      {{1, 3, 1}, 4, "shape of a tensor is malformed"},
  };
  for (const Case& c : cases) {
    WireWriter writer;
    for (uint64_t number : c.numbers) writer.Unsigned(number);
    const std::string header = writer.Take();
    WireReader reader(header);
    size_t next = 0;
    const auto result =
        DecodeTensor(&reader, {Payload::OfString(std::string(c.payload_bytes, '\x7f'))}, &next);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(result.status()), HasSubstr(c.error));
  }
}

TEST(Bundle, HostileBoolsBecomeTrue) {
  WireWriter writer;
  for (uint64_t number : {uint64_t{10}, uint64_t{1}, uint64_t{2}}) writer.Unsigned(number);
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  const Tensor tensor = DecodeTensor(&reader, {Payload::OfString(std::string("\x00\xff", 2))}, &next).value();
  EXPECT_EQ(static_cast<const uint8_t*>(tensor.data())[1], 1);
}

absl::StatusOr<Frame> DecodeBytes(const std::string& bytes) {
  size_t position = 0;
  const auto read = [&](char* to, size_t n) {
    EXPECT_LE(position + n, bytes.size());
    memcpy(to, bytes.data() + position, std::min(n, bytes.size() - position));
    position += n;
  };
  return DecodeFrame(bytes.size(), read, AnyPlace);
}

std::string EncodeBytes(const Frame& frame) {
  std::string bytes = FramePrologue::Encode(frame) + frame.header;
  for (const Payload& payload : frame.payloads) bytes.append(payload.data(), payload.num_bytes());
  return bytes;
}

TEST(Frame, EveryTruncationAndRandomDamageIsSurvived) {
  WireWriter writer;
  Frame frame;
  ASSERT_TRUE(EncodeBundle({{1, false, Tensor::Vector<float>({1, 2, 3})},
                            {2, false, Tensor::Vector<std::string>({"ab", "c"})}},
                           &writer, &frame.payloads)
                  .ok());
  frame.header = writer.Take();
  const std::string good = EncodeBytes(frame);
  EXPECT_EQ(good.size(), frame.num_wire_bytes());
  ASSERT_TRUE(DecodeBytes(good).ok());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(DecodeBytes(good.substr(0, n)).ok()) << n;
  EXPECT_FALSE(DecodeBytes(good + "x").ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips) bad[random() % bad.size()] ^= 1 << random() % 8;
    auto decoded = DecodeBytes(bad);
    if (!decoded.ok()) continue;
    WireReader reader(decoded->header);
    (void)DecodeBundle(&reader, decoded->payloads);  // either way, but no crash and no runaway allocation
  }
}

TEST(Wire, NumbersAtTheirLimits) {
  WireWriter writer;
  for (uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) writer.Unsigned(v);
  for (int64_t v : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) writer.Signed(v);
  writer.Fixed64(UINT64_MAX - 1);
  writer.StatusValue(absl::NotFoundError("gone"));
  writer.StatusValue(absl::OkStatus());
  writer.Deadline(absl::InfiniteFuture());
  writer.Deadline(absl::Now() + absl::Seconds(100));
  writer.Deadline(absl::Now() - absl::Seconds(100));
  for (const int64_t years : {200, 300, 1'000'000}) writer.Deadline(absl::Now() + absl::Hours(8766 * years));
  const std::string bytes = writer.Take();
  WireReader reader(bytes);
  for (uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) EXPECT_EQ(reader.Unsigned(), v);
  for (int64_t v : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) EXPECT_EQ(reader.Signed(), v);
  EXPECT_EQ(reader.Fixed64(), UINT64_MAX - 1);
  EXPECT_EQ(reader.StatusValue(), absl::NotFoundError("gone"));
  EXPECT_TRUE(reader.StatusValue().ok());
  EXPECT_EQ(reader.Deadline(), absl::InfiniteFuture());
  EXPECT_GT(reader.Deadline(), absl::Now() + absl::Seconds(90));
  EXPECT_LT(reader.Deadline(), absl::Now() + absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_GT(reader.Deadline(), absl::Now() + absl::Hours(8766 * 100));
  EXPECT_TRUE(reader.Finish("test").ok());
  EXPECT_EQ(reader.Unsigned(), 0u);
  EXPECT_THAT(Text(reader.Finish("test")), HasSubstr("test: malformed or cut short"));
  WireReader endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  endless.Unsigned();
  EXPECT_FALSE(endless.ok());
}

// -------------------------------------------------------------------------------------------- every
// transport's suite

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

absl::StatusOr<Frame> CallAndWait(Channel& channel, absl::string_view method, Frame request,
                                  CallOptions options = {}) {
  absl::StatusOr<Frame> result = absl::UnknownError("no reply");
  absl::Notification done;
  channel.Call(method, std::move(request), options, [&](absl::StatusOr<Frame> reply) {
    result = std::move(reply);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

CallOptions Within(absl::Duration duration) { return {absl::Now() + duration}; }

void Echo(std::shared_ptr<IncomingCall> call) { call->Reply(std::move(call->request())); }

Frame MakeFrame(std::string header, std::vector<size_t> payload_sizes) {
  Frame frame;
  frame.header = std::move(header);
  for (size_t size : payload_sizes) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + size);
    frame.payloads.push_back(Payload::OfString(std::move(bytes)));
  }
  return frame;
}

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
  absl::Notification cancelled;
  std::shared_ptr<IncomingCall> held;
  auto listener = Listen([&](std::shared_ptr<IncomingCall> call) {
    held = call;
    call->OnCancel([&] { cancelled.Notify(); });
  });
  auto channel = Connect(listener->address());
  const absl::Time start = absl::Now();
  const absl::Status status =
      CallAndWait(*channel, "/weir.T/Slow", {}, Within(absl::Milliseconds(200))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status),
              HasSubstr(absl::StrCat("ps:0 at ", listener->address(), ": /weir.T/Slow did not answer")));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(absl::Seconds(5)));
  held->Reply(Frame());  // too late, and harmless
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
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(5)));
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(absl::Seconds(5)));
  bool told_at_once = false;
  held->OnCancel([&] { told_at_once = true; });
  EXPECT_TRUE(told_at_once);
}

TEST_P(TransportTest, NobodyListensAndShutdown) {
  auto listener = Listen(Echo);
  const std::string address = listener->address();
  auto channel = Connect(address);
  ASSERT_TRUE(CallAndWait(*channel, "/weir.T/E", {}).ok());
  listener->Shutdown();
  listener->Shutdown();
  const absl::Status refused = CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Seconds(10))).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(Text(refused), HasSubstr(absl::StrCat("ps:0 at ", address)));
  // Whoever is patient finds the server that comes back at the same address.
  std::thread restart([&] {
    absl::SleepFor(absl::Milliseconds(200));
    listener = Listen(Echo, address);
  });
  CallOptions patient = Within(absl::Seconds(20));
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

// A host transport whose channels use their sockets from the first call of a test on, if there is a listener.
class SocketsAtOnce final : public Transport {
 public:
  explicit SocketsAtOnce(std::unique_ptr<Transport> host) : host_(std::move(host)) {}
  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    auto channel = host_->Connect(peer, address);
    EXPECT_TRUE(!channel.ok() || AwaitSocket(**channel));
    return channel;
  }
  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    return host_->Listen(address, std::move(handler), std::move(placement));
  }

  static bool AwaitSocket(Channel& channel) {
    EXPECT_TRUE(CallAndWait(channel, kFindSocketMethod, {}, Within(absl::Seconds(20))).ok());
    for (int i = 0; i < 2000 && !UsesSocket(channel); ++i) absl::SleepFor(absl::Milliseconds(1));
    return UsesSocket(channel);
  }

 private:
  const std::unique_ptr<Transport> host_;
};

std::unique_ptr<Transport> MakeHost(const HostTransportOptions& options) {
  return std::make_unique<SocketsAtOnce>(MakeHostTransport(MakeGrpc(), options).value());
}

INSTANTIATE_TEST_SUITE_P(
    All, TransportTest,
    ::testing::Values(TransportKind{"Inproc", [] { return MakeInprocTransport(MakeInprocNetwork()); }},
                      TransportKind{"Grpc", [] { return MakeGrpc(); }},
                      TransportKind{"Host", [] { return MakeHost({}); }},
                      TransportKind{"HostWithoutLoans", [] { return MakeHost({.lent_bytes = 0}); }},
                      // Faults that never hit change nothing.
                      TransportKind{"Fault",
                                    [] {
                                      return std::make_unique<FaultTransport>(
                                          MakeInprocTransport(MakeInprocNetwork()));
                                    }}),
    [](const auto& info) { return info.param.name; });

// -------------------------------------------------------------------------------------------------------------
// gRPC

TEST(GrpcTransport, TensorBytesAliasOnTheWayOutAndComeAligned) {
  auto transport = MakeGrpc();
  auto listener = transport->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(call->request().payloads[0].data()) % Allocator::kAlignment, 0u);
    call->Reply(Frame());
  });
  auto channel = transport->Connect({"ps", 0}, (*listener)->address()).value();
  Tensor tensor(DType::kFloat32, {1 << 20});
  std::fill(tensor.flat<float>().begin(), tensor.flat<float>().end(), 1.0f);
  Frame request;
  request.payloads.push_back(Payload::OfTensor(tensor));
  EXPECT_TRUE(request.payloads[0].data() == tensor.data());
  ASSERT_TRUE(CallAndWait(*channel, "/weir.T/X", std::move(request)).ok());
  for (int i = 0; i < 500 && !tensor.has_exclusive_buffer(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(tensor.has_exclusive_buffer());  // nothing holds the bytes once they have been sent
}

TEST(GrpcTransport, MessagesAboveTheLimitAreErrors) {
  GrpcOptions options;
  options.max_message_bytes = 10'000;
  auto small = MakeGrpc(options);
  auto listener = small->Listen(
      "127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) { call->Reply(MakeFrame("", {20'000})); });
  auto channel = small->Connect({"worker", 3}, (*listener)->address()).value();
  const absl::Status too_large = CallAndWait(*channel, "/weir.T/X", MakeFrame("", {20'000})).status();
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(too_large),
              HasSubstr("worker:3: /weir.T/X: a message of 20016 bytes is above the limit of 10000"));
  const absl::Status reply_too_large = CallAndWait(*channel, "/weir.T/X", {}).status();
  EXPECT_EQ(reply_too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(reply_too_large), HasSubstr("a reply of 20016 bytes is above the limit of 10000"));
}

TEST(GrpcTransport, MalformedFramesAreRefused) {
  auto transport = MakeGrpc();
  auto listener = transport->Listen("127.0.0.1:0", Echo).value();
  // A foreign method's bytes are not framed: this way any bytes can be put on the wire. The listener decides
  // by name, so a raw socket plays the hostile client.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<uint16_t>(std::stoi(listener->address().substr(listener->address().rfind(':') + 1))));
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::mt19937 random(2);
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  (void)!write(fd, noise.data(), noise.size());
  close(fd);
  auto channel = transport->Connect({"ps", 0}, listener->address()).value();
  EXPECT_TRUE(CallAndWait(*channel, "/weir.T/E", {}).ok());  // the server lives on
}

TEST(GrpcTransport, PortZeroOfAPeerIsAnError) {
  EXPECT_THAT(Text(MakeGrpc()->Connect({"ps", 1}, "localhost:0").status()),
              HasSubstr("cannot connect to ps:1"));
}

TEST(GrpcTransport, TokenIsCheckedOnEveryCall) {
  GrpcOptions with_token;
  with_token.security.token = "0123456789abcdef";
  auto server = MakeGrpc(with_token);
  auto listener = server->Listen("0.0.0.0:0", Echo).value();  // allowed: it has a token
  const std::string address =
      absl::StrCat("127.0.0.1", listener->address().substr(listener->address().rfind(':')));
  EXPECT_TRUE(CallAndWait(*server->Connect({"ps", 0}, address).value(), "/weir.T/E", {}).ok());
  GrpcOptions other;
  for (const char* wrong : {"", "0123456789abcdeg", "0123456789abcde"}) {
    other.security.token = wrong;
    auto client = MakeGrpc(other);
    auto channel = client->Connect({"ps", 0}, address).value();
    for (const char* method : {"/weir.T/E", "/tensorflow.MasterService/RunStep"}) {
      const absl::Status status =
          CallAndWait(*channel, method, MakeFrame("", {5}), Within(absl::Seconds(10))).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
      EXPECT_THAT(Text(status), HasSubstr("token"));
    }
  }
}

TEST(GrpcTransport, ExposureNeedsProtectionOrPermission) {
  const absl::Status refused = MakeGrpc()->Listen("0.0.0.0:0", Echo).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(refused), HasSubstr("refusing to listen at 0.0.0.0:0"));
  EXPECT_EQ(MakeGrpc()->Listen("[::]:0", Echo).status().code(), absl::StatusCode::kFailedPrecondition);
  GrpcOptions insecure;
  insecure.security.insecure = true;
  EXPECT_TRUE(MakeGrpc(insecure)->Listen("0.0.0.0:0", Echo).ok());
  EXPECT_TRUE(MakeGrpc()->Listen("localhost:0", Echo).ok());
}

// A CA and a certificate for "weir.test" signed by it, made by the openssl command.
std::string MakeCertificates() {
  const std::string dir = absl::StrCat(::testing::TempDir(), "/tls");
  const std::string command = absl::StrCat(
      "mkdir -p '", dir, "' && cd '", dir,
      "' && exec >/dev/null 2>&1 && "
      "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=weir-ca && "
      "openssl req -newkey rsa:2048 -nodes -keyout key.pem -out req.pem -subj /CN=weir.test && "
      "printf 'subjectAltName=DNS:weir.test' > ext && "
      "openssl x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile "
      "ext");
  return std::system(command.c_str()) == 0 ? dir : "";
}

TEST(GrpcTransport, MutualTls) {
  const std::string dir = MakeCertificates();
  if (dir.empty()) GTEST_SKIP() << "no openssl command to make certificates with";
  GrpcOptions options;
  options.security.tls_ca_file = dir + "/ca.pem";
  options.security.tls_cert_file = dir + "/cert.pem";
  options.security.tls_key_file = dir + "/key.pem";
  options.security.tls_server_name = "weir.test";
  auto transport = MakeGrpc(options);
  auto listener = transport->Listen("127.0.0.1:0", Echo).value();
  EXPECT_TRUE(CallAndWait(*transport->Connect({"ps", 0}, listener->address()).value(), "/weir.T/E", {},
                          Within(absl::Seconds(20)))
                  .ok());
  // Without TLS, and with TLS but no certificate of one's own.
  auto plain = MakeGrpc();
  EXPECT_EQ(CallAndWait(*plain->Connect({"ps", 0}, listener->address()).value(), "/weir.T/E", {},
                        Within(absl::Seconds(20)))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  GrpcOptions anonymous = options;
  anonymous.security.tls_cert_file = anonymous.security.tls_key_file = "";
  auto stranger = MakeGrpc(anonymous);
  EXPECT_FALSE(CallAndWait(*stranger->Connect({"ps", 0}, listener->address()).value(), "/weir.T/E", {},
                           Within(absl::Seconds(20)))
                   .ok());
  EXPECT_THAT(Text(stranger->Listen("127.0.0.1:0", Echo).status()), HasSubstr("needs a certificate"));
}

TEST(Security, OptionsThatDoNotFitTogether) {
  GrpcOptions options;
  options.security.tls_cert_file = "/no/such/file";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("must be given together"));
  options.security.tls_key_file = "/no/such/key";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("cannot read '/no/such/file'"));
  options = {};
  options.security.token = "with space";
  EXPECT_FALSE(MakeGrpcTransport(options).ok());
  const std::string path = ::testing::TempDir() + "/token";
  std::ofstream(path) << "secret-secret-secret\n";
  EXPECT_EQ(ReadTokenFile(path).value(), "secret-secret-secret");
  std::ofstream(path) << "short\n";
  EXPECT_THAT(Text(ReadTokenFile(path).status()), HasSubstr("has 5 characters"));
  EXPECT_EQ(ReadTokenFile(path + "x").status().code(), absl::StatusCode::kNotFound);
}

// ------------------------------------------------------------------------------------------------------------
// faults

struct FaultTest : ::testing::Test {
  FaultTransport transport{MakeInprocTransport(MakeInprocNetwork())};
  std::atomic<int> num_served{0};
  std::unique_ptr<Listener> listener = transport
                                           .Listen("127.0.0.1:0",
                                                   [this](std::shared_ptr<IncomingCall> call) {
                                                     ++num_served;
                                                     Echo(call);
                                                   })
                                           .value();
  std::unique_ptr<Channel> channel = transport.Connect({"ps", 0}, listener->address()).value();

  absl::Status CallOnce() {
    return CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Milliseconds(300))).status();
  }
};

TEST_F(FaultTest, EachActionDoesWhatItSays) {
  transport.Add(
      {.action = Fault::Action::kClose, .method = "E", .job = "ps", .task = 0, .skip = 1, .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_TRUE(absl::IsUnavailable(CallOnce()));
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_EQ(num_served, 2);

  transport.Clear();
  transport.Add({.action = Fault::Action::kDropRequest, .count = 1});
  EXPECT_TRUE(absl::IsDeadlineExceeded(CallOnce()));
  EXPECT_EQ(num_served, 2);

  transport.Add({.action = Fault::Action::kDropReply, .count = 1});
  EXPECT_TRUE(absl::IsUnavailable(CallOnce()));
  EXPECT_EQ(num_served, 3);

  transport.Add({.action = Fault::Action::kDuplicate, .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  for (int i = 0; i < 500 && num_served < 5; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(num_served, 5);

  const absl::Time start = absl::Now();
  transport.Add({.action = Fault::Action::kDelay, .delay = absl::Milliseconds(100), .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
  EXPECT_EQ(transport.num_hits(), 5);
}

TEST_F(FaultTest, OtherTasksAreNotHit) {
  transport.Add({.action = Fault::Action::kClose, .job = "worker"});
  transport.Add({.action = Fault::Action::kClose, .task = 1});
  transport.Add({.action = Fault::Action::kClose, .method = "Other"});
  EXPECT_TRUE(CallOnce().ok());
}

}  // namespace
}  // namespace weir
