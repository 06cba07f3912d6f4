// Where a server listens: on all interfaces when told to, and what happens while names do not resolve.
#include <string>

#include "absl/strings/str_cat.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";
// Never exists (RFC 6761).
constexpr char kUnknownName[] = "no-such-host.invalid";

TaskConfig Worker(const std::string& addresses) {
  return TaskConfig::Create(ClusterSpec::FromFlag(absl::StrCat("worker|", addresses)).value(), {"worker", 0})
      .value();
}

ServerOptions Options(const std::string& listen) {
  ServerOptions options;
  options.num_threads = 1;
  options.listen = listen;
  options.security.token = kToken;
  options.name_timeout = absl::Milliseconds(100);
  return options;
}

std::string FreePort() { return std::to_string(FindFreePorts(1).value()[0]); }

TEST(Listen, AllInterfacesNeedNoNameOfOnesOwn) {
  const std::string port = FreePort();
  const TaskConfig task = Worker(absl::StrCat(kUnknownName, ":", port));
  EXPECT_EQ(Server::Start(task, Options("0.0.0.0")).value()->address(), "grpc://0.0.0.0:" + port);
  EXPECT_EQ(Server::Start(task, Options("127.0.0.1")).value()->address(), "grpc://127.0.0.1:" + port);
  const std::string other = FreePort();
  EXPECT_EQ(Server::Start(task, Options("0.0.0.0:" + other)).value()->address(), "grpc://0.0.0.0:" + other);
  setenv("WEIR_LISTEN", "0.0.0.0", 1);
  EXPECT_EQ(ServerOptions().listen, "0.0.0.0");
  unsetenv("WEIR_LISTEN");
  EXPECT_EQ(ServerOptions().listen, "");
}

TEST(Listen, AllInterfacesNeedAToken) {
  ServerOptions options = Options("0.0.0.0");
  options.security.token.clear();
  const absl::Status refused = Server::Start(Worker("127.0.0.1:" + FreePort()), options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("refusing to listen at 0.0.0.0:"));
}

TEST(Listen, ANameThatDoesNotResolveIsWorthARestart) {
  const absl::Status status =
      Server::Start(Worker(absl::StrCat(kUnknownName, ":", FreePort())), Options("")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ExitCodeFor(status), kExitRetryable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker:0: host name 'no-such-host.invalid': "));
}

TEST(Listen, DamagedAddressesAreRefused) {
  for (const char* bad : {"a b", "h:x", "[::", "[]", "h:65536", ":1", "::1:80:"}) {
    const absl::Status status = Server::Start(Worker("127.0.0.1:" + FreePort()), Options(bad)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("cannot listen at '", bad, "'")))
        << bad;
  }
}

TEST(Listen, LoopbackIsOfNoUseToOtherMachines) {
  ::testing::internal::CaptureStderr();
  Server::Start(Worker(absl::StrCat("localhost:", FreePort(), ";192.0.2.7:1")), Options("")).value();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("which only this machine can reach, but worker:1 is at 192.0.2.7:1"));
  ::testing::internal::CaptureStderr();
  Server::Start(Worker(absl::StrCat("localhost:", FreePort(), ";localhost:1;127.0.0.1:1")), Options(""))
      .value();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("only this machine")));
}

TEST(Listen, APeerWhoseNameDoesNotResolveIsNamed) {
  auto server =
      Server::Start(Worker(absl::StrCat("127.0.0.1:", FreePort(), ";", kUnknownName, ":1")), Options(""))
          .value();
  const SessionTarget target = server->target_on_all_tasks();
  ASSERT_EQ(target.workers.size(), 2u);
  // The name is looked up for a tenth of that.
  const absl::Status status = target.workers[1]->ListDevices(absl::Now() + absl::Seconds(6)).status();
  EXPECT_EQ(ExitCodeFor(status), kExitRetryable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("host name 'no-such-host.invalid': ")) << status;
}

}  // namespace
}  // namespace weir
