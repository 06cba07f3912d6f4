// Which options a server refuses, and what it warns of.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";

TaskConfig Worker(const std::string& others) {
  const std::string address = absl::StrCat("127.0.0.1:", FindFreePorts(1).value()[0]);
  return TaskConfig::Create(ClusterSpec::FromFlag(absl::StrCat("worker|", address, others)).value(),
                            {"worker", 0})
      .value();
}

ServerOptions Options() {
  ServerOptions options;
  options.num_threads = 1;
  options.listen = "";
  options.security = SecurityOptions();
  return options;
}

std::string Refusal(const ServerOptions& options) {
  const absl::Status status = Server::Start(Worker(""), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ServerOptionsTest, AnEnvironmentThatNamesNoNumberOfThreadsIsRefused) {
  for (const char* const text : {"many", "-1", "4 cores", "99999999999"}) {
    setenv("WEIR_NUM_THREADS", text, 1);
    ServerOptions options = Options();
    EXPECT_TRUE(Server::Start(Worker(""), options).ok()) << "it is not asked for";
    options.num_threads = 0;
    EXPECT_EQ(Refusal(options), absl::StrCat("WEIR_NUM_THREADS is '", text,
                                             "': it must be a number of threads, or 0 for all cores"));
  }
  unsetenv("WEIR_NUM_THREADS");
}

TEST(ServerOptionsTest, NumbersOutOfRangeAreRefused) {
  for (const absl::Duration lease :
       {absl::Seconds(-1), absl::ZeroDuration(), absl::Milliseconds(99), absl::Hours(25),
        absl::InfiniteDuration(), -absl::InfiniteDuration(), absl::Seconds(1e300)}) {
    ServerOptions options = Options();
    options.lease = lease;
    EXPECT_THAT(Refusal(options), HasSubstr("it must be from 100ms to 24h"));
  }
  for (const int num_threads : {-1, 1025, 1'000'000}) {
    ServerOptions options = Options();
    options.num_threads = num_threads;
    EXPECT_THAT(Refusal(options), HasSubstr("a runtime has 1 to 1024 threads, or 0 for all cores, got "));
  }
  ServerOptions options = Options();
  options.termination_grace = absl::Seconds(-1);
  EXPECT_THAT(Refusal(options), HasSubstr("a server's termination grace is -1s: it must be from 0 to 24h"));
  options = Options();
  options.chief_grace = absl::InfiniteDuration();
  EXPECT_THAT(Refusal(options), HasSubstr("a server's chief grace is inf: it must be from 0 to 168h"));
  options = Options();
  options.memory_limit = -1;
  EXPECT_THAT(Refusal(options), HasSubstr("a device's memory limit is -1 bytes"));
}

TEST(ServerOptionsTest, LimitsOfPeersThatAreNoneAreRefused) {
  for (const char* const text : {"steps", "steps=", "steps=0", "steps=-1", "steps=x", "cakes=1", "steps=1,",
                                 "steps=99999999999999999999", "=1", ","}) {
    ServerOptions options = Options();
    options.peer_limits = text;
    EXPECT_THAT(Refusal(options), HasSubstr(absl::StrCat("peer limits '", text, "': '"))) << text;
  }
  ServerOptions options = Options();
  options.peer_limits = "sessions=1,plans=2,edges=3,steps=4,bytes=5";
  EXPECT_TRUE(Server::Start(Worker(";127.0.0.1:1"), options).ok());
  setenv("WEIR_PEER_LIMITS", "steps=7", 1);
  EXPECT_EQ(ServerOptions().peer_limits, "steps=7");
  unsetenv("WEIR_PEER_LIMITS");
}

TEST(ServerOptionsTest, ATokenThatCanBeGuessedIsRefused) {
  ServerOptions options = Options();
  options.security.token = "x";
  EXPECT_THAT(Refusal(options), HasSubstr("has 1 characters: a token has 16 to 4096"));
}

// What a server says when it starts beside `others`.
std::string Warnings(const ServerOptions& options, const std::string& others) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Server::Start(Worker(others), options).ok());
  return ::testing::internal::GetCapturedStderr();
}

TEST(ServerOptionsTest, LoopbackWithoutATokenIsOpenToAllUsers) {
  ServerOptions options = Options();
  EXPECT_THAT(Warnings(options, ""),
              HasSubstr("worker:0 listens without a token: every user of this machine"));
  options.security.insecure = true;
  EXPECT_EQ(Warnings(options, ""), "");
  options.security = {.token = kToken};
  EXPECT_EQ(Warnings(options, ";localhost:1"), "");
}

TEST(ServerOptionsTest, ATokenThatLeavesTheMachineInClearIsSaid) {
  ServerOptions options = Options();
  options.security.token = kToken;
  const std::string warnings = Warnings(options, ";192.0.2.7:1;192.0.2.8:1");
  EXPECT_THAT(warnings, HasSubstr("worker:0 sends the job's token to worker:1 (192.0.2.7:1) unencrypted"));
  EXPECT_THAT(warnings, Not(HasSubstr("worker:2")));  // once is enough
}

}  // namespace
}  // namespace weir
