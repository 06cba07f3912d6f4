// What callers without the token can do to a server.
#include "distributed/transport/grpc/connection_gate.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/grpc/rapid_resets.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int PortIn(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

// Opens streams and resets them until the server closes, or as many as told.
void Flood(RawConnection& attacker, int num_calls) {
  constexpr int kBatch = 500;
  attacker.Write(Http2Greeting());
  uint32_t stream = 1;
  for (int done = 0; done < num_calls && attacker.is_open(); done += kBatch) {
    std::string calls;
    for (int n = 0; n < kBatch; ++n, stream += 2) {
      absl::StrAppend(&calls, Http2Call(stream, "/weir.Worker/Heartbeat"), Http2Reset(stream));
    }
    attacker.Write(calls);
  }
}

class StrangersTest : public ::testing::Test {
 protected:
  StrangersTest() {
    options_.security.token = kToken;
    options_.is_serving = [this] { return is_serving_.load(); };
    transport_ = MakeGrpcTransport(options_).value();
  }

  void Listen(const std::string& address) {
    listener_ = transport_
                    ->Listen(address,
                             [this](std::shared_ptr<IncomingCall> call) {
                               ++num_served_;
                               {
                                 absl::MutexLock lock(&mutex_);
                                 client_ = call->client();
                               }
                               call->Reply(std::move(call->request()));
                             })
                    .value();
    port_ = PortIn(listener_->address());
  }

  std::unique_ptr<Channel> Connect(const std::string& host) {
    return transport_->Connect({"ps", 0}, absl::StrCat(host, ":", port_)).value();
  }

  static absl::Status Call(Channel& channel) {
    return CallAndWait(channel, "/weir.T/E", {}, Within(absl::Seconds(60))).status();
  }

  std::string client() const {
    absl::MutexLock lock(&mutex_);
    return client_;
  }

  GrpcOptions options_;
  std::atomic<bool> is_serving_{true};
  std::unique_ptr<Transport> transport_;
  std::atomic<int> num_served_{0};
  mutable absl::Mutex mutex_;
  std::string client_ ABSL_GUARDED_BY(mutex_);  // who called last
  std::unique_ptr<Listener> listener_;
  int port_ = 0;
};

// Each stream that is opened and reset would cost gRPC some kilobytes until its call is looked at.
TEST_F(StrangersTest, ManyStreamsThatAreResetAtOnceCostLittle) {
  Listen("127.0.0.1:0");
  const auto channel = Connect("127.0.0.1");
  ASSERT_TRUE(Call(*channel).ok());
  const int64_t before = ResidentBytes();
  constexpr int kConnections = 20, kCalls = 50'000;
  int num_closed = 0;
  for (int i = 0; i < kConnections; ++i) {
    RawConnection attacker(port_);
    Flood(attacker, kCalls);
    num_closed += attacker.AwaitClose();
  }
  EXPECT_EQ(num_closed, kConnections);
  EXPECT_LT(ResidentBytes() - before, 50 << 20);
  const std::string before_flood = client();
  EXPECT_TRUE(Call(*channel).ok());
  EXPECT_EQ(client(), before_flood);  // through the connection that it had
  EXPECT_EQ(num_served_, 2);
}

TEST_F(StrangersTest, GoodClientsAreServedWhileOthersFlood) {
  Listen("127.0.0.1:0");
  const auto channel = Connect("127.0.0.1");
  ASSERT_TRUE(Call(*channel).ok());
  std::atomic<bool> is_over{false};
  std::atomic<int> num_floods{0};
  std::vector<std::thread> attackers;
  for (int i = 0; i < 4; ++i) {
    attackers.emplace_back([&] {
      while (!is_over) {
        RawConnection attacker(port_);
        Flood(attacker, 5'000);
        ++num_floods;
      }
    });
  }
  absl::Duration slowest;
  for (int i = 0; i < 200 || num_floods < 50; ++i) {
    const absl::Time start = absl::Now();
    const std::unique_ptr<Channel> fresh = i % 10 == 0 ? Connect("127.0.0.1") : nullptr;
    EXPECT_TRUE(Call(fresh != nullptr ? *fresh : *channel).ok());
    slowest = std::max(slowest, absl::Now() - start);
  }
  is_over = true;
  for (std::thread& attacker : attackers) attacker.join();
  RecordProperty("slowest_call", absl::FormatDuration(slowest));
  std::printf("the slowest call beside %d floods took %s\n", num_floods.load(),
              absl::FormatDuration(slowest).c_str());
}

TEST_F(StrangersTest, ACallWithoutTheTokenIsToldSoAndTheFewThatFollow) {
  Listen("127.0.0.1:0");
  RawConnection stranger(port_);
  stranger.Write(Http2Greeting());
  for (uint32_t stream = 1; stranger.is_open() && stream < 1000; stream += 2) {
    stranger.Write(Http2Call(stream, "/weir.T/100%\n", "fedcba9876543210"));
  }
  EXPECT_TRUE(stranger.AwaitClose());
  EXPECT_THAT(stranger.heard(), HasSubstr("grpc-status"));
  EXPECT_THAT(stranger.heard(),
              HasSubstr("/weir.T/100%25%0A: the call does not carry this job's token ($WEIR_JOB_TOKEN"));
  EXPECT_THAT(stranger.heard(), Not(HasSubstr(kToken)));
  EXPECT_EQ(num_served_, 0);
}

TEST_F(StrangersTest, AFirstCallWithTheTokenIsServedWhicheverWayItCame) {
  for (const auto& [address, over_ipv6] : std::vector<std::pair<std::string, bool>>{
           {"127.0.0.1:0", false}, {"0.0.0.0:0", false}, {"[::]:0", false}, {"[::1]:0", true}}) {
    if (over_ipv6 && !transport_->Listen(address, Echo).ok()) continue;  // there is no IPv6 here
    Listen(address);
    const int num_served = num_served_;
    RawConnection client(port_, over_ipv6);
    ASSERT_TRUE(client.is_open()) << address;
    constexpr int kData = 0, kEndStream = 1;
    const std::string bytes =
        absl::StrCat(Http2Greeting(), Http2Call(1, "/other.T/E", kToken),
                     Http2Frame(kData, kEndStream, 1, std::string("\0\0\0\0\5hello", 10)));
    for (const char c : bytes) client.Write(std::string(1, c));  // however it is cut
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (client.heard().find("hello") == std::string::npos && absl::Now() < deadline) {
      client.AwaitClose(absl::Milliseconds(20));
    }
    EXPECT_EQ(num_served_, num_served + 1) << address;
    EXPECT_THAT(client.heard(), HasSubstr("hello")) << address;
  }
}

TEST_F(StrangersTest, TooManyConnectionsCloseTheOldestButNoneThatIsKnown) {
  Listen("127.0.0.1:0");
  const auto channel = Connect("127.0.0.1");
  ASSERT_TRUE(Call(*channel).ok());
  const std::string before_flood = client();
  std::vector<std::unique_ptr<RawConnection>> strangers;
  for (size_t i = 0; i < options_.max_strangers + 40; ++i) {
    strangers.push_back(std::make_unique<RawConnection>(port_));
    ASSERT_TRUE(strangers.back()->is_open());
  }
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(strangers[i]->AwaitClose()) << i;
  EXPECT_FALSE(strangers.back()->AwaitClose(absl::ZeroDuration()));
  EXPECT_TRUE(Call(*channel).ok());
  EXPECT_EQ(client(), before_flood);
  EXPECT_TRUE(Call(*Connect("localhost")).ok());  // and another one gets in
}

TEST_F(StrangersTest, ProbesNeedNoToken) {
  Listen("127.0.0.1:0");
  for (const bool is_serving : {true, false}) {
    is_serving_ = is_serving;
    GrpcOptions stranger;
    for (const char* token : {"", kToken}) {
      stranger.security.token = token;
      const auto probe = MakeGrpcTransport(stranger).value();
      const auto channel = probe->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
      const absl::StatusOr<Frame> reply =
          CallAndWait(*channel, "/grpc.health.v1.Health/Check", {}, Within(absl::Seconds(60)));
      ASSERT_TRUE(reply.ok()) << reply.status();
      ASSERT_EQ(reply->payloads.size(), 1u);
      EXPECT_EQ(reply->payloads[0].bytes(), is_serving ? "\x08\x01" : "\x08\x02");
    }
    for (const char* token : {"", kToken}) {  // a stranger's connection is over with its first answer
      stranger.security.token = token;
      const auto ask = [&](absl::string_view method) {
        const auto probe = MakeGrpcTransport(stranger).value();
        const auto channel = probe->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
        return CallAndWait(*channel, method, {}, Within(absl::Seconds(60)));
      };
      const absl::StatusOr<Frame> list = ask("/grpc.health.v1.Health/List");
      ASSERT_TRUE(list.ok()) << list.status();
      ASSERT_EQ(list->payloads.size(), 1u);
      constexpr absl::string_view kServing("\x0a\x06\x0a\x00\x12\x02\x08\x01", 8),
          kNotServing("\x0a\x06\x0a\x00\x12\x02\x08\x02", 8);
      EXPECT_EQ(list->payloads[0].bytes(), is_serving ? kServing : kNotServing);
      // What a client takes for "healthy, and do not ask": it must not be Unauthenticated.
      EXPECT_TRUE(absl::IsUnimplemented(ask("/grpc.health.v1.Health/Watch").status()));
    }
  }
  EXPECT_EQ(num_served_, 0);
}

TEST(ConnectionGateTest, WhoDoesNotShowTheTokenInTimeIsClosed) {
  auto gate =
      ConnectionGate::Listen("127.0.0.1:0", {.token = kToken, .grace = absl::Milliseconds(50)}).value();
  std::atomic<int> num_admitted{0};
  ASSERT_TRUE(gate->Start([&](int, int, std::string) { ++num_admitted; }).ok());
  RawConnection silent(gate->port()), slow(gate->port()), noisy(gate->port());
  slow.Write(Http2Greeting().substr(0, 20));
  noisy.Write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(slow.AwaitClose());
  EXPECT_TRUE(noisy.AwaitClose());
  gate->Stop();
  EXPECT_EQ(gate->num_strangers(), 0u);
  EXPECT_EQ(num_admitted, 0);
}

// A clock that stands still until a test moves it on.
std::atomic<int64_t> clock_moved_on_by{0};
absl::Time StandingClock() { return absl::UnixEpoch() + absl::Milliseconds(clock_moved_on_by.load()); }
void MoveOn(absl::Duration time) { clock_moved_on_by += absl::ToInt64Milliseconds(time); }

// What it says cannot be read, so gRPC has it, and says whether a call was let in.
TEST(ConnectionGateTest, WhoIsNotAdmittedInTimeIsClosedWithTlsToo) {
  constexpr absl::Duration kGrace = absl::Milliseconds(300);
  auto gate =
      ConnectionGate::Listen("127.0.0.1:0", {.is_encrypted = true, .grace = kGrace, .now = StandingClock})
          .value();
  absl::Mutex mutex;
  std::vector<int> fds;
  const auto take = [&](int fd, int, const std::string&) {
    absl::MutexLock lock(&mutex);
    fds.push_back(fd);
  };
  ASSERT_TRUE(gate->Start(take).ok());
  const auto await_connections = [&](size_t num) {
    absl::MutexLock lock(&mutex);
    const auto are_there = [&] { return fds.size() == num; };
    mutex.Await(absl::Condition(&are_there));
  };
  RawConnection good(gate->port());
  await_connections(1);
  sockaddr_in client{};
  socklen_t size = sizeof(client);
  ASSERT_EQ(getpeername(fds[0], reinterpret_cast<sockaddr*>(&client), &size), 0);
  gate->OnAdmitted(absl::StrCat("ipv4:127.0.0.1:", ntohs(client.sin_port)));
  RawConnection silent(gate->port()), slow(gate->port());
  await_connections(3);
  slow.Write("\x16\x03\x01");
  MoveOn(kGrace);
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(slow.AwaitClose());
  EXPECT_FALSE(good.AwaitClose(absl::Milliseconds(500)));
  gate->Stop();
  for (const int fd : fds) close(fd);
}

TEST(ConnectionGateTest, WhoseCallIsRefusedIsClosedSoonWithTlsToo) {
  auto gate = ConnectionGate::Listen("127.0.0.1:0", {.is_encrypted = true, .grace = absl::Hours(1)}).value();
  std::atomic<int> taken{-1};
  ASSERT_TRUE(gate->Start([&](int fd, int, const std::string&) { taken = fd; }).ok());
  RawConnection stranger(gate->port());
  while (taken < 0) absl::SleepFor(absl::Milliseconds(1));
  sockaddr_in client{};
  socklen_t size = sizeof(client);
  ASSERT_EQ(getpeername(taken, reinterpret_cast<sockaddr*>(&client), &size), 0);
  EXPECT_FALSE(stranger.AwaitClose(absl::ZeroDuration()));
  gate->OnRefused(absl::StrCat("ipv4:127.0.0.1:", ntohs(client.sin_port)));
  EXPECT_TRUE(stranger.AwaitClose());
  gate->Stop();
  close(taken);
}

// Reads what comes through the connections that it was given, as gRPC does, and keeps nothing of it.
class Readers {
 public:
  ~Readers() {
    for (std::thread& thread : threads_) thread.join();
  }
  void Read(int fd) {
    threads_.emplace_back([fd] {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      std::string buffer(1 << 16, 0);
      while (recv(fd, buffer.data(), buffer.size(), 0) > 0) {
      }
      close(fd);
    });
  }

 private:
  std::vector<std::thread> threads_;
};

// gRPC puts the headers of a call together without a limit, whose frames are small.
TEST(ConnectionGateTest, WhoSendsTooMuchBeforeItIsAdmittedIsClosedWithTls) {
  Readers readers;
  std::atomic<int> num_told{0};
  auto gate =
      ConnectionGate::Listen(
          "127.0.0.1:0", {.is_encrypted = true,
                          .on_refused = [&](Refusal, absl::string_view, absl::string_view) { ++num_told; },
                          .grace = absl::Hours(1)})
          .value();
  ASSERT_TRUE(gate->Start([&](int fd, int, const std::string&) { readers.Read(fd); }).ok());
  const std::string piece(1 << 20, 'x');
  RawConnection modest(gate->port()), loud(gate->port());
  modest.Write(piece);
  uint64_t num_sent = 0;
  while (loud.is_open() && num_sent < 100 * ConnectionGate::kMaxStrangerBytes) {
    loud.Write(piece);
    num_sent += piece.size();
  }
  EXPECT_GT(num_sent, ConnectionGate::kMaxStrangerBytes);
  EXPECT_FALSE(loud.is_open());
  EXPECT_FALSE(modest.AwaitClose(absl::ZeroDuration()));
  EXPECT_EQ(num_told, 1);
  // All together.
  std::vector<std::unique_ptr<RawConnection>> many;
  for (int i = 0; i < 8; ++i) {
    many.push_back(std::make_unique<RawConnection>(gate->port()));
    for (int n = 0; n < 15; ++n) many.back()->Write(piece);
  }
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (num_told < 5 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_GE(num_told, 5) << "8 times 15 MiB are 56 MiB more than all may send";
  EXPECT_FALSE(modest.AwaitClose(absl::ZeroDuration()));
  gate->Stop();
}

// Takes all descriptors that this process may have but `num_left`, until it goes.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t num_left) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = 200;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) fds_.push_back(fd);
    GiveBack(num_left);
  }
  ~FewDescriptors() {
    GiveBack(fds_.size());
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  void GiveBack(size_t num) {
    for (; num > 0 && !fds_.empty(); --num, fds_.pop_back()) close(fds_.back());
  }

 private:
  rlimit before_{};
  std::vector<int> fds_;
};

// The gate needs two of them for a connection with TLS.
TEST(ConnectionGateTest, ANewcomerWaitsWhileThereAreTooFewDescriptors) {
  auto gate = ConnectionGate::Listen("127.0.0.1:0", {.is_encrypted = true}).value();
  std::atomic<int> taken{-1};
  ASSERT_TRUE(gate->Start([&](int fd, int, const std::string&) { taken = fd; }).ok());
  FewDescriptors few(2);  // the client's own, and one more
  RawConnection client(gate->port());
  ASSERT_TRUE(client.is_open());
  EXPECT_FALSE(client.AwaitClose(absl::Milliseconds(500)));
  EXPECT_EQ(taken, -1);
  few.GiveBack(10);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (taken < 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GE(taken, 0);
  EXPECT_FALSE(client.AwaitClose(absl::ZeroDuration()));
  gate->Stop();
  gate->AwaitHandler();
  close(taken);
}

// However slowly gRPC closes its own: what is left above belongs to files.
TEST(ConnectionGateTest, StrangersLeaveTheLastDescriptorsAlone) {
  const int before = dup(0);
  close(before);
  constexpr int kStrangers = 35, kForGate = 20;
  const int most = before + kStrangers + kForGate;
  auto gate = ConnectionGate::Listen("127.0.0.1:0", {.is_encrypted = true, .max_descriptors = most}).value();
  std::vector<std::unique_ptr<RawConnection>> strangers;  // they wait in the backlog until it starts
  for (int i = 0; i < kStrangers; ++i) strangers.push_back(std::make_unique<RawConnection>(gate->port()));
  std::vector<int> fds;  // gRPC's, which it never closes
  std::atomic<size_t> num_taken{0};
  ASSERT_TRUE(gate->Start([&](int fd, int, const std::string&) {
                    fds.push_back(fd);
                    num_taken = fds.size();
                  })
                  .ok());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  // Those that wait want the room of those that were let in.
  while ((num_taken < kForGate / 2 || gate->num_strangers() > 0) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(gate->num_strangers(), 0u);
  gate->Stop();
  gate->AwaitHandler();
  EXPECT_LT(fds.size(), strangers.size());
  for (const int fd : fds) {
    EXPECT_LT(fd, most);
    close(fd);
  }
}

// gRPC reads with the thread that gives it a connection while something comes: the gate is to close that one.
TEST(ConnectionGateTest, AHandlerThatIsHeldUpDoesNotHoldUpTheGate) {
  constexpr absl::Duration kGrace = absl::Milliseconds(200);
  auto gate =
      ConnectionGate::Listen("127.0.0.1:0", {.token = kToken, .grace = kGrace, .now = StandingClock}).value();
  absl::Notification is_held, release;
  ASSERT_TRUE(gate->Start([&](int fd, int, const std::string&) {
                    is_held.Notify();
                    release.WaitForNotification();
                    close(fd);
                  })
                  .ok());
  RawConnection admitted(gate->port());
  admitted.Write(absl::StrCat(Http2Greeting(), Http2Call(1, "/weir.T/E", kToken, /*kept=*/true)));
  is_held.WaitForNotification();
  RawConnection stranger(gate->port());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (stranger.heard().empty() && absl::Now() < deadline) stranger.AwaitClose(absl::Milliseconds(20));
  EXPECT_NE(stranger.heard(), "") << "it was not accepted";
  MoveOn(kGrace);
  EXPECT_TRUE(stranger.AwaitClose());
  EXPECT_FALSE(admitted.AwaitClose(absl::ZeroDuration()));
  gate->Stop();
  release.Notify();
}

TEST(ConnectionGateTest, NoMoreWaitThanAreAllowed) {
  auto gate = ConnectionGate::Listen("127.0.0.1:0", {.token = kToken, .max_strangers = 5}).value();
  ASSERT_TRUE(gate->Start([](int, int, std::string) {}).ok());
  std::vector<std::unique_ptr<RawConnection>> strangers;
  for (int i = 0; i < 12; ++i) strangers.push_back(std::make_unique<RawConnection>(gate->port()));
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(strangers[i]->AwaitClose()) << i;
  for (int i = 7; i < 12; ++i) EXPECT_FALSE(strangers[i]->AwaitClose(absl::ZeroDuration())) << i;
}

// A clock that goes on by `step_of_clock` with every look at it.
std::atomic<int64_t> clock_milliseconds{0}, step_of_clock{0};
absl::Time SteppingClock() {
  return absl::UnixEpoch() + absl::Milliseconds(clock_milliseconds.fetch_add(step_of_clock));
}

// The pause after a flood is over between any two looks at the clock, and nothing else wakes the gate then.
TEST(ConnectionGateTest, APauseThatEndsBetweenTwoLooksAtTheClockEnds) {
  for (int step = 10; step <= 100; step += 5) {
    step_of_clock = 0;
    auto gate = ConnectionGate::Listen("127.0.0.1:0", {.now = SteppingClock}).value();
    std::atomic<int> num_let_in{0};
    ASSERT_TRUE(gate->Start([&](int fd, int, std::string) {
                      ++num_let_in;
                      close(fd);
                    })
                    .ok());
    for (int i = 1; i < RapidResets::kLimit; ++i) gate->OnReset("ipv4:127.0.0.1:1");
    step_of_clock = step;
    gate->OnReset("ipv4:127.0.0.1:1");
    absl::SleepFor(absl::Milliseconds(20));  // it is asleep, or will be: whoever comes now does not wake it
    RawConnection newcomer(gate->port());
    EXPECT_TRUE(newcomer.AwaitClose(absl::Seconds(20))) << step << " ms with each look";
    EXPECT_EQ(num_let_in, 1);
  }
}

TEST(ConnectionGateTest, APortInUseIsSaidToBe) {
  auto gate = ConnectionGate::Listen("127.0.0.1:0", {}).value();
  const absl::Status taken = ConnectionGate::Listen(absl::StrCat("127.0.0.1:", gate->port()), {}).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()), HasSubstr("cannot listen at 127.0.0.1:"));
}

}  // namespace
}  // namespace weir
