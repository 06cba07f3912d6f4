// Tasks that the others do not let in, because they were started with something else: both sides say why, and
// the task ends as after a mistake.
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/metrics/http_listener.h"
#include "distributed/server.h"
#include "distributed/test_server.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLease = absl::Milliseconds(300);

class RefusedJoinTest : public ::testing::Test {
 protected:
  RefusedJoinTest() : ports_(FindFreePorts(4).value()) {}

  std::string At(int i) const { return absl::StrCat("127.0.0.1:", ports_[i]); }
  ClusterSpec Spec(const std::string& text) const { return ClusterSpec::FromFlag(text).value(); }

  std::unique_ptr<Server> Start(const std::string& spec, const TaskName& task,
                                const std::string& token = "") {
    ServerOptions options;
    options.num_threads = 1;
    options.lease = kLease;
    options.security.token = token;
    options.metrics_port = task.job == "ps" ? "0" : "";
    options.max_workers = max_workers_;
    return Server::Start(TaskConfig::Create(Spec(spec), task).value(), options).value();
  }

  // How a program on that server ends before it has begun.
  static absl::Status Train(Server& worker, absl::Duration patience) {
    CounterModel model(worker);
    return MonitoredTrainingSession(
               model.g, {.target = worker.target(), .is_chief = false, .recovery_timeout = patience})
        .status();
  }

  static std::string Metrics(const Server& server) {
    RawConnection client(server.metrics_port());
    client.Write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(client.AwaitClose());
    return client.heard();
  }

  const std::vector<int> ports_;
  int max_workers_ = 0;
};

TEST_F(RefusedJoinTest, AnotherToken) {
  const std::string spec = absl::StrCat("ps|", At(0), ",worker|", At(1));
  const auto ps = Start(spec, {"ps", 0}, "the-token-of-this-job");
  for (const char* token : {"the-token-of-another-job", ""}) {
    ::testing::internal::CaptureStderr();
    const auto worker = Start(spec, {"worker", 0}, token);
    const absl::Status end = Train(*worker, absl::Minutes(5));
    const std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(absl::IsUnauthenticated(end)) << end;
    EXPECT_EQ(ExitCodeFor(end), kExitUserError);
    const std::string why = absl::StrCat("worker:0 has not joined the cluster, because ps:0 at ", At(0),
                                         ", which lets tasks join, has refused it");
    EXPECT_THAT(std::string(end.message()),
                AllOf(HasSubstr(why), HasSubstr("does not carry this job's token")));
    EXPECT_THAT(printed, HasSubstr(why));
    if (token[0] != '\0') {
      EXPECT_THAT(printed, HasSubstr("ps:0 refuses 127.0.0.1:")) << "once a minute";
    }
  }
  EXPECT_THAT(Metrics(*ps), HasSubstr("weir_refused_calls_total{kind=\"token\"} "));
  EXPECT_THAT(Metrics(*ps), Not(HasSubstr("weir_refused_calls_total{kind=\"token\"} 0\n")));
}

TEST_F(RefusedJoinTest, AnotherClusterSpec) {
  const auto ps = Start(absl::StrCat("ps|", At(0), ",worker|", At(1)), {"ps", 0});
  const auto more = Start(absl::StrCat("ps|", At(0), ",worker|", At(1), ";", At(2)), {"worker", 1});
  ::testing::internal::CaptureStderr();
  const absl::Status end = Train(*more, absl::Minutes(5));
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(ExitCodeFor(end), kExitUserError) << end;
  EXPECT_THAT(
      std::string(end.message()),
      HasSubstr("worker:1 is no task of the cluster of ps:0: the tasks were given different cluster specs"));
  EXPECT_THAT(Metrics(*ps), HasSubstr("weir_refused_calls_total{kind=\"cluster\"} "));
  // A ps, which runs no session, ends too.
  const auto second = Start(absl::StrCat("ps|", At(0), ";", At(3), ",worker|", At(1)), {"ps", 1});
  EXPECT_EQ(second->Join(), kExitUserError);
}

// A guest whose cluster spec has no chief's job would be the chief itself, and set all variables anew.
TEST_F(RefusedJoinTest, AnotherChief) {
  max_workers_ = 4;
  const auto ps = Start(absl::StrCat("chief|", At(1), ",ps|", At(0)), {"ps", 0});
  const auto guest = Start(absl::StrCat("ps|", At(0), ",worker|", At(2)), {"worker", 0});
  const absl::Status end = Train(*guest, absl::Minutes(5));
  EXPECT_EQ(ExitCodeFor(end), kExitUserError) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("the tasks were given different cluster specs: in that of worker:0 the chief is "
                        "worker:0, in that of ps:0 it is chief:0"));
}

TEST_F(RefusedJoinTest, OtherParameterServers) {
  max_workers_ = 4;
  const auto ps = Start(absl::StrCat("ps|", At(0), ";", At(1), ",worker|", At(2)), {"ps", 0});
  const auto guest = Start(absl::StrCat("ps|", At(0), ",worker|", At(2), ";5=", At(3)), {"worker", 5});
  const absl::Status end = Train(*guest, absl::Minutes(5));
  EXPECT_EQ(ExitCodeFor(end), kExitUserError) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("different cluster specs: that of worker:5 has these parameter servers: 1 (ps:0), "
                        "that of ps:0 has these: 2 (ps:0, ps:1)"));
}

// It is let in: another name may stand for the same place.
TEST_F(RefusedJoinTest, AnotherAddressOfItself) {
  const auto ps = Start(absl::StrCat("ps|", At(0), ",worker|", At(1)), {"ps", 0});
  ::testing::internal::CaptureStderr();
  const auto worker = Start(absl::StrCat("ps|", At(0), ",worker|", At(2)), {"worker", 0});
  CounterModel model(*worker);
  ASSERT_TRUE(worker->CreateSession(model.g.graph()).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("ps:0: worker:0 joins, whose cluster spec has worker:0 at ", At(2),
                                     ", while that of ps:0 has it at ", At(1))));
}

// The others would look for it where the process is that works for them.
TEST_F(RefusedJoinTest, AnotherAddressOfATaskThatIsThere) {
  const std::string spec = absl::StrCat("ps|", At(0), ",worker|", At(1));
  const auto ps = Start(spec, {"ps", 0});
  const auto worker = Start(spec, {"worker", 0});
  CounterModel model(*worker);
  ASSERT_TRUE(worker->CreateSession(model.g.graph()).ok());
  ASSERT_EQ(ps->membership().state({"worker", 0}), MemberState::kAlive);
  const auto second = Start(absl::StrCat("ps|", At(0), ",worker|", At(2)), {"worker", 0});
  const absl::Status end = Train(*second, absl::Seconds(3));
  EXPECT_EQ(ExitCodeFor(end), kExitRetryable) << end;
  EXPECT_THAT(
      std::string(end.message()),
      HasSubstr(absl::StrCat("another process is worker:0 at ", At(1),
                             ", where the others look for it, and this one says that it is at ", At(2))));
  EXPECT_TRUE(worker->membership().superseded().ok()) << worker->membership().superseded();
  CounterModel another(*worker);
  EXPECT_TRUE(worker->CreateSession(another.g.graph()).ok());
}

// It is neither the task that is asked nor the first one.
TEST_F(RefusedJoinTest, AnotherTokenOfAParameterServer) {
  const std::string spec = absl::StrCat("ps|", At(0), ";", At(1), ",worker|", At(2));
  const auto ps = Start(spec, {"ps", 0}, "the-token-of-this-job");
  const auto other = Start(spec, {"ps", 1}, "the-token-of-another-job");
  const auto worker = Start(spec, {"worker", 0}, "the-token-of-this-job");
  const absl::Status end = Train(*worker, absl::Minutes(5));
  EXPECT_EQ(ExitCodeFor(end), kExitUserError) << end;
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr(absl::StrCat("ps:1 at ", At(1), ": ")),
                    HasSubstr("does not carry this job's token"), Not(HasSubstr("this call"))));
}

TEST_F(RefusedJoinTest, AnotherAddressOfAParameterServer) {
  const auto ps = Start(absl::StrCat("ps|", At(0), ";", At(1), ",worker|", At(2)), {"ps", 0});
  ::testing::internal::CaptureStderr();
  const auto worker = Start(absl::StrCat("ps|", At(0), ";", At(3), ",worker|", At(2)), {"worker", 0});
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (ps->membership().state({"worker", 0}) != MemberState::kAlive && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("ps:0: worker:0 joins, whose cluster spec has ps:1 at ", At(3),
                                     ", while that of ps:0 has it at ", At(1))));
}

// The other parameter server has let it in.
TEST_F(RefusedJoinTest, NobodyAtTheAddressOfAParameterServer) {
  const std::string spec = absl::StrCat("ps|", At(0), ";", At(1), ",worker|", At(2));
  const auto ps = Start(spec, {"ps", 0});
  const auto worker = Start(spec, {"worker", 0});
  const absl::Status end = Train(*worker, absl::Seconds(6));  // a tenth of it is for a look at the address
  EXPECT_EQ(ExitCodeFor(end), kExitRetryable) << end;
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr(absl::StrCat("ps:1 at ", At(1), ": ")), HasSubstr("did not answer within"),
                    HasSubstr("; nobody listens there")));
}

TEST_F(RefusedJoinTest, AnotherTaskAtTheAddressOfTheAuthority) {
  const auto other = Start(absl::StrCat("ps|", At(0), ";", At(1), ",worker|", At(2)), {"ps", 1});
  const auto worker = Start(absl::StrCat("ps|", At(1), ",worker|", At(2)), {"worker", 0});
  const absl::Status end = Train(*worker, absl::Minutes(5));
  EXPECT_EQ(ExitCodeFor(end), kExitUserError) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("the tasks were given different cluster specs"));
}

TEST_F(RefusedJoinTest, AnotherProgramAtTheAddressOfTheAuthority) {
  const auto program = HttpListener::Start(At(0), [](absl::string_view) -> std::optional<HttpPage> {
                         return HttpPage{};
                       }).value();
  const auto worker = Start(absl::StrCat("ps|", At(0), ",worker|", At(1)), {"worker", 0});
  const absl::Status end = Train(*worker, absl::Seconds(4));
  EXPECT_EQ(ExitCodeFor(end), kExitRetryable) << end;
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr(At(0)), HasSubstr("another program answers there")));
}

}  // namespace
}  // namespace weir
