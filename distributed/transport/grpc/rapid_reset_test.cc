// A client that has the token, and opens and resets streams as fast as it can. The server is a process of its
// own: gRPC's threads serve all connections of a process, also those that the test calls through.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/launch/free_ports.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/grpc/rapid_resets.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "distributed/transport/grpc/test_attack.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kConnections = 12;

int64_t ResidentBytes(pid_t process) {
  int64_t total = 0, resident = 0;
  std::ifstream(absl::StrCat("/proc/", process, "/statm")) >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

absl::Duration CpuTime(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  std::string field;
  for (int i = 0; i < 13; ++i) file >> field;
  int64_t user = 0, system = 0;
  file >> user >> system;
  return absl::Seconds(user + system) / sysconf(_SC_CLK_TCK);
}

// Connects again when it is closed. `with_requests`: the calls are whole before they are reset.
[[noreturn]] void ResetStreams(int port, bool with_requests) {
  constexpr int kBatch = 2000, kData = 0, kEndStream = 1;
  const std::string empty_message(5, '\0');
  while (true) {
    RawConnection attacker(port);
    attacker.Write(absl::StrCat(Http2Greeting(), Http2Call(1, "/weir.T/E", kToken, /*kept=*/true)));
    for (uint32_t stream = 3; attacker.is_open();) {
      std::string calls;
      for (int i = 0; i < kBatch; ++i, stream += 2) {
        absl::StrAppend(&calls, Http2CallAgain(stream));
        if (with_requests) absl::StrAppend(&calls, Http2Frame(kData, kEndStream, stream, empty_message));
        absl::StrAppend(&calls, Http2Reset(stream));
      }
      attacker.Write(calls);
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// Begins when it is continued.
void Attack(int port, bool with_requests) {
  raise(SIGSTOP);
  std::vector<std::thread> threads;
  for (int i = 1; i < kConnections; ++i) threads.emplace_back(ResetStreams, port, with_requests);
  ResetStreams(port, with_requests);
}

struct Flood {
  Flood(int port, bool with_requests)
      : port(port),
        server([port] { Serve(port); }),
        attacker([port, with_requests] { Attack(port, with_requests); }) {}

  const int port;
  const ChildProcess server, attacker;
};

// Without bounds the server has 10 GB after some seconds, and a call waits for 20 s. Where only the clients
// whose resets were seen are closed, it has 3 GB with 24 connections, and more on a busy machine.
TEST(RapidResetTest, AnAdmittedClientThatResetsAllItsStreamsHarmsNobody) {
  // All of them before this process has threads of gRPC.
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  const auto without_requests = std::make_unique<Flood>(ports[0], false);
  const auto with_requests = std::make_unique<Flood>(ports[1], true);
  const auto transport = MakeGrpcTransport(WithToken()).value();
  for (const Flood* flood : {without_requests.get(), with_requests.get()}) {
    const std::string address = absl::StrCat("127.0.0.1:", flood->port);
    const auto channel = transport->Connect({"ps", 0}, address).value();
    const auto call = [](Channel& channel) {
      return CallAndWait(channel, "/weir.T/E", {}, Within(absl::Seconds(60))).status();
    };
    for (const absl::Time end = absl::Now() + absl::Seconds(60); !call(*channel).ok();) {
      ASSERT_LT(absl::Now(), end) << "the server does not listen";
      absl::SleepFor(absl::Milliseconds(20));
    }
    const int64_t before = ResidentBytes(flood->server.pid());
    waitpid(flood->attacker.pid(), nullptr, WUNTRACED);  // until it is ready
    kill(flood->attacker.pid(), SIGCONT);
    int64_t most = before;
    absl::Duration slowest, most_work;
    // On a busy machine the server needs longer to get into trouble.
    const absl::Time begin = absl::Now();
    while (absl::Now() < begin + absl::Seconds(5) ||
           (CpuTime(flood->server.pid()) < absl::Seconds(6) && absl::Now() < begin + absl::Seconds(15))) {
      const absl::Time start = absl::Now();
      const absl::Duration work = CpuTime(flood->server.pid());
      const absl::Status answered = call(*channel);
      EXPECT_TRUE(answered.ok()) << answered;
      slowest = std::max(slowest, absl::Now() - start);
      most_work = std::max(most_work, CpuTime(flood->server.pid()) - work);
      most = std::max(most, ResidentBytes(flood->server.pid()));
      absl::SleepFor(absl::Milliseconds(10));
    }
    std::printf("%d MB more; the slowest call took %s, and the server %s of a processor\n",
                static_cast<int>((most - before) >> 20), absl::FormatDuration(slowest).c_str(),
                absl::FormatDuration(most_work).c_str());
    EXPECT_LT((most - before) >> 20, 1000);
    // How long it took says more of what else the machine did.
    EXPECT_LT(most_work, absl::Seconds(10));
    // Who was not there before gets in too.
    absl::Status newcomer = absl::UnknownError("not asked");
    for (const absl::Time end = absl::Now() + absl::Seconds(60); !newcomer.ok() && absl::Now() < end;) {
      newcomer = call(*transport->Connect({"ps", 0}, address).value());
    }
    EXPECT_TRUE(newcomer.ok()) << newcomer;
    kill(flood->attacker.pid(), SIGSTOP);
  }
}

TEST(RapidResetsTest, ClosesWhoResetsMuchAndAcceptsAgainWhenThatIsGone) {
  RapidResets resets;
  absl::Time now = absl::UnixEpoch();
  const auto many = [&](const std::string& client, int count) {
    for (int i = 0; i < count; ++i) EXPECT_THAT(resets.Note(client, now), IsEmpty());
  };
  EXPECT_LE(resets.settles_at(), now);
  many("a", RapidResets::kLimit - 1);
  now += RapidResets::kWindow;  // it was slow
  many("b", RapidResets::kFew);
  many("c", RapidResets::kLimit - RapidResets::kFew - 1);
  EXPECT_THAT(resets.Note("c", now), ElementsAre("c"));
  EXPECT_EQ(resets.settles_at(), now + RapidResets::kSettled);
  now += RapidResets::kSettled / 2;
  many("b", 1);
  EXPECT_EQ(resets.settles_at(), now + RapidResets::kSettled / 2) << "not by those of others";
  many("c", 1);
  EXPECT_EQ(resets.settles_at(), now + RapidResets::kSettled);
  now += RapidResets::kSettled;
  many("c", 1);
  EXPECT_EQ(resets.settles_at(), now) << "its address may be another one's by then";
}

TEST(RapidResetsTest, WhoComesAgainAtOnceWaitsLongerAndLonger) {
  RapidResets resets;
  absl::Time now = absl::UnixEpoch();
  const auto pause_after_flood = [&] {
    while (resets.Note("a", now).empty()) {
    }
    const absl::Duration pause = resets.settles_at() - now;
    now = resets.settles_at();
    return pause;
  };
  EXPECT_EQ(pause_after_flood(), RapidResets::kSettled);
  EXPECT_EQ(pause_after_flood(), 2 * RapidResets::kSettled);
  for (int i = 0; i < 10; ++i) EXPECT_LE(pause_after_flood(), RapidResets::kLongestPause);
  EXPECT_EQ(pause_after_flood(), RapidResets::kLongestPause);
  now += RapidResets::kWindow;
  EXPECT_EQ(pause_after_flood(), RapidResets::kSettled);
}

TEST(RapidResetsTest, AFloodThroughManyConnectionsIsOneToo) {
  RapidResets resets;
  size_t num_closed = 0;
  for (int i = 0; i < RapidResets::kLimit; ++i) {
    num_closed += resets.Note(absl::StrCat("client ", i % 50), absl::UnixEpoch()).size();
  }
  EXPECT_EQ(num_closed, 50u);
}

}  // namespace
}  // namespace weir
