// The doctor with clusters that are well and with each ailment that it knows.
#include "distributed/doctor/doctor.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/task_status.h"
#include "distributed/tcp_probe.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "gmock/gmock.h"
#include "graph/version.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using Kind = Finding::Kind;

constexpr char kToken[] = "0123456789abcdef";

std::string FreeAddress() { return absl::StrCat("127.0.0.1:", FindFreePorts(1).value()[0]); }

DoctorOptions Options(const std::string& spec) {
  DoctorOptions options;
  options.cluster = ClusterSpec::FromFlag(spec).value();
  options.security.token = kToken;
  options.timeout = absl::Seconds(10);
  return options;
}

std::unique_ptr<Server> StartServer(const ClusterSpec& cluster, const TaskName& task,
                                    const std::string& token = kToken) {
  ServerOptions options;
  options.num_threads = 1;
  options.security.token = token;
  return Server::Start(TaskConfig::Create(cluster, task).value(), options).value();
}

// The names of a network that is not there.
HostLookup Names(std::map<std::string, HostAddresses> names) {
  return [names = std::move(names)](const std::string& host) -> absl::StatusOr<HostAddresses> {
    const auto it = names.find(host);
    if (it != names.end()) return it->second;
    return absl::NotFoundError(absl::StrCat("host name '", host, "': unknown"));
  };
}

// What was found about the subject, of the worst kind; a line each.
std::string Found(const std::vector<Finding>& findings, absl::string_view subject, Kind kind) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.subject == subject && finding.kind == kind) absl::StrAppend(&text, finding.text, "\n");
  }
  return text;
}

int Count(const std::vector<Finding>& findings, Kind kind) {
  int count = 0;
  for (const Finding& finding : findings) count += finding.kind == kind;
  return count;
}

TEST(Doctor, AClusterThatIsWell) {
  const DoctorOptions options = Options(absl::StrCat("ps|", FreeAddress(), ",worker|", FreeAddress()));
  const auto ps = StartServer(options.cluster, {"ps", 0});
  const auto worker = StartServer(options.cluster, {"worker", 0});
  const std::vector<Finding> findings = Examine(options);
  EXPECT_EQ(Count(findings, Kind::kGood), static_cast<int>(findings.size()));
  EXPECT_EQ(Found(findings, "cluster", Kind::kGood), "1 ps, 1 worker\n");
  EXPECT_THAT(Found(findings, "ps:0", Kind::kGood), HasSubstr("answers at 127.0.0.1:"));
  EXPECT_THAT(Found(findings, "worker:0", Kind::kGood), HasSubstr("answers at 127.0.0.1:"));
}

TEST(Doctor, NobodyListensYet) {
  DoctorOptions options = Options(absl::StrCat("ps|", FreeAddress(), ",worker|", FreeAddress()));
  options.self = TaskName{"worker", 0};
  const std::vector<Finding> findings = Examine(options);
  EXPECT_EQ(Count(findings, Kind::kBad), 0);
  EXPECT_THAT(Found(findings, "ps:0", Kind::kDoubtful),
              HasSubstr("it does not run (yet), or listens elsewhere"));
  EXPECT_THAT(Found(findings, "worker:0", Kind::kDoubtful),
              HasSubstr("it does not run, and its port is free"));
}

TEST(Doctor, AnotherTokenAndAnotherTask) {
  const std::string address = FreeAddress();
  const auto server =
      StartServer(ClusterSpec::FromFlag("worker|" + address).value(), {"worker", 0}, "another_token....");
  EXPECT_THAT(Found(Examine(Options("worker|" + address)), "worker:0", Kind::kBad),
              HasSubstr("does not accept this program's token"));
  DoctorOptions options = Options("ps|" + address);
  options.security.token = "another_token....";
  EXPECT_THAT(Found(Examine(options), "ps:0", Kind::kBad),
              HasSubstr(absl::StrCat("at ", address, " is worker:0, a task of another job")));
}

TEST(Doctor, AnotherClusterSpec) {
  const std::string ps_at = FreeAddress(), worker_at = FreeAddress(), other = FreeAddress();
  const DoctorOptions right = Options(absl::StrCat("ps|", ps_at, ",worker|", worker_at));
  const auto ps = StartServer(right.cluster, {"ps", 0});
  const auto worker = StartServer(right.cluster, {"worker", 0});
  EXPECT_EQ(Count(Examine(right), Kind::kBad), 0);
  const auto found = [](const std::string& spec, const char* subject) {
    return Found(Examine(Options(spec)), subject, Kind::kBad);
  };
  EXPECT_EQ(found(absl::StrCat("ps|", ps_at, ",worker|", worker_at, ";", other), "ps:0"),
            "was started with another cluster spec: there is no worker:1 in it\n");
  EXPECT_EQ(found(absl::StrCat("ps|", ps_at, ",worker|", other), "ps:0"),
            absl::StrCat("was started with another cluster spec: worker:0 is at ", worker_at,
                         " in it, not at ", other, "\n"));
  EXPECT_EQ(found(absl::StrCat("ps|", ps_at), "ps:0"),
            "was started with another cluster spec: it has worker:0 too\n");
  // A worker need not know the other workers, but all parameter servers.
  EXPECT_EQ(found(absl::StrCat("ps|", ps_at, ",worker|", worker_at, ";", other), "worker:0"), "");
  EXPECT_EQ(found(absl::StrCat("ps|", ps_at, ";", other, ",worker|", worker_at), "worker:0"),
            "was started with another cluster spec: there is no ps:1 in it\n");
}

TEST(Doctor, SomebodyElseListensThere) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 5), 0);
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  DoctorOptions options = Options(absl::StrCat("worker|127.0.0.1:", ntohs(address.sin_port)));
  options.timeout = absl::Seconds(5);
  EXPECT_THAT(Found(Examine(options), "worker:0", Kind::kBad),
              HasSubstr("somebody listens, but gives no answer"));
  close(listener);
}

TEST(Doctor, AServerThatDoesNotAnswerInTime) {
  GrpcOptions grpc;
  grpc.security.token = kToken;
  const std::unique_ptr<Transport> transport = MakeGrpcTransport(grpc).value();
  std::vector<std::shared_ptr<IncomingCall>> held;
  const std::unique_ptr<Listener> listener =
      transport->Listen("127.0.0.1:0", [&](std::shared_ptr<IncomingCall> call) { held.push_back(call); })
          .value();
  DoctorOptions options = Options("worker|" + listener->address());
  options.timeout = absl::Seconds(3);
  EXPECT_THAT(Found(Examine(options), "worker:0", Kind::kBad),
              HasSubstr("somebody listens, but gives no answer (it was stopped, is too busy, "));
  listener->Shutdown();
}

// A server that answers with what it is told to.
std::vector<Finding> ExamineAnswer(const std::string& answer) {
  GrpcOptions grpc;
  grpc.security.token = kToken;
  const std::unique_ptr<Transport> transport = MakeGrpcTransport(grpc).value();
  const std::unique_ptr<Listener> listener = transport
                                                 ->Listen("127.0.0.1:0",
                                                          [&](std::shared_ptr<IncomingCall> call) {
                                                            Frame frame;
                                                            frame.header = answer;
                                                            call->Reply(std::move(frame));
                                                          })
                                                 .value();
  return Examine(Options("worker|" + listener->address()));
}

TEST(Doctor, VersionsAndClocks) {
  std::vector<Finding> findings = ExamineAnswer(
      EncodeTaskStatus({{"worker", 0}, 1, "99.0\x1b[2J", absl::Now() - absl::Hours(1), "worker|1=a:1"}));
  EXPECT_EQ(Found(findings, "worker:0", Kind::kBad),
            absl::StrCat("has version 99.0\\x1b[2J, this program has ", WEIR_VERSION, "\n"));
  EXPECT_THAT(Found(findings, "worker:0", Kind::kDoubtful), HasSubstr("behind this machine's"));
  findings = ExamineAnswer(
      EncodeTaskStatus({{"worker", 0}, 1, WEIR_VERSION, absl::InfiniteFuture(), "worker|1=a:1"}));
  EXPECT_THAT(Found(findings, "worker:0", Kind::kDoubtful), HasSubstr("ahead of this machine's"));
  EXPECT_THAT(Found(ExamineAnswer("damaged"), "worker:0", Kind::kBad),
              HasSubstr("answered what nobody can read"));
}

TEST(Doctor, Names) {
  DoctorOptions options = Options("ps|lost:1,worker|here:1;there:1");
  options.timeout = absl::Milliseconds(100);
  options.self = TaskName{"worker", 0};
  options.lookup = Names({{"here", {{"127.0.0.1"}, true}}, {"there", {{"192.0.2.7"}, false}}});
  std::vector<Finding> findings = Examine(options);
  EXPECT_EQ(Found(findings, "ps:0", Kind::kBad), "host name 'lost': unknown\n");
  EXPECT_THAT(
      Found(findings, "worker:0", Kind::kBad),
      HasSubstr("here is 127.0.0.1, which only its own machine can reach, but other tasks are elsewhere"));
  EXPECT_NE(Found(findings, "worker:1", Kind::kBad), "");  // nobody is at that address

  options.listen = "0.0.0.0";
  EXPECT_EQ(Found(Examine(options), "worker:0", Kind::kBad), "");
  options.listen = "";
  options.self = TaskName{"worker", 1};
  EXPECT_THAT(Found(Examine(options), "worker:1", Kind::kBad),
              HasSubstr("which is no address of this machine"));
}

TEST(Doctor, Tokens) {
  DoctorOptions options = Options("ps|a:1,worker|b:1");
  options.timeout = absl::Milliseconds(50);
  options.lookup = Names({{"a", {{"127.0.0.1"}, true}}, {"b", {{"127.0.0.1"}, true}}});
  options.security = SecurityOptions();
  EXPECT_THAT(Found(Examine(options), "token", Kind::kGood), HasSubstr("all tasks are on this machine"));
  options.lookup = Names({{"a", {{"127.0.0.1"}, true}}, {"b", {{"192.0.2.7"}, false}}});
  EXPECT_THAT(Found(Examine(options), "token", Kind::kBad), HasSubstr("none: servers refuse to listen"));
  options.security.insecure = true;
  EXPECT_THAT(Found(Examine(options), "token", Kind::kDoubtful),
              HasSubstr("who reaches a server may run code"));
  options.security.insecure = false;
  options.security.token = "short";
  EXPECT_THAT(Found(Examine(options), "token", Kind::kBad), HasSubstr("has 5 characters"));
  options.security.token = "not\nprintable....";
  EXPECT_THAT(Found(Examine(options), "token", Kind::kBad), HasSubstr("not visible ASCII"));
}

TEST(Doctor, ClustersThatCannotTrain) {
  EXPECT_THAT(Found(Examine(Options("ps|" + FreeAddress())), "cluster", Kind::kBad),
              HasSubstr("nobody trains"));
  EXPECT_THAT(Found(Examine(Options(absl::StrCat("worker|", FreeAddress(), ";", FreeAddress()))), "cluster",
                    Kind::kDoubtful),
              HasSubstr("every worker has variables of its own"));
  EXPECT_EQ(Found(Examine(DoctorOptions()), "cluster", Kind::kGood), "none: the program runs alone\n");
}

TEST(ExamineDisk, DirectoriesThatAreThereAndThatAreNot) {
  const std::string dir = ::testing::TempDir();
  EXPECT_THAT(ExamineDisk(dir).text, HasSubstr("can be written and has "));
  EXPECT_THAT(ExamineDisk(dir + "/a/b/c").text, HasSubstr("can be written and has "));
  std::ofstream(dir + "/file") << "x";
  EXPECT_EQ(ExamineDisk(dir + "/file").kind, Kind::kBad);
  EXPECT_EQ(ExamineDisk(dir + "/file/below").kind, Kind::kBad);
  DoctorOptions options;
  options.model_dir = dir + "/file";
  EXPECT_THAT(Found(Examine(options), "model_dir", Kind::kBad), HasSubstr("is no directory"));
}

TEST(TaskStatus, DamagedBytesAreRefused) {
  const std::string whole = EncodeTaskStatus({{"worker", 3}, 7, "1.0", absl::FromUnixMicros(5), "ps|host:1"});
  const TaskStatus status = DecodeTaskStatus(whole).value();
  EXPECT_EQ(status.task, (TaskName{"worker", 3}));
  EXPECT_EQ(status.incarnation, 7u);
  EXPECT_EQ(status.version, "1.0");
  EXPECT_EQ(status.clock, absl::FromUnixMicros(5));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(DecodeTaskStatus(whole.substr(0, length)).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(DecodeTaskStatus(whole + "x").ok());
}

TEST(ExamineGpus, NoneIsWellAndABrokenOneIsDoubtful) {
  std::vector<Finding> findings = ExamineGpus({.why_none = "there is no NVIDIA driver on this machine"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Finding::Kind::kGood);
  EXPECT_EQ(findings[0].subject, "gpus");
  EXPECT_EQ(findings[0].text, "none: there is no NVIDIA driver on this machine");

  findings = ExamineGpus({.versions = "runtime 13.0",
                          .gpus = {{true, "GPU 0: H100"}, {false, "GPU 1: lost\x1b"}},
                          .libraries = {{false, "cuDNN cannot be opened"}}});
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[0].text, "runtime 13.0; no task computes on GPUs yet");
  EXPECT_EQ(findings[1].kind, Finding::Kind::kGood);
  EXPECT_EQ(findings[2].kind, Finding::Kind::kDoubtful);
  EXPECT_EQ(findings[2].text, "GPU 1: lost\\x1b");
  EXPECT_EQ(findings[3].kind, Finding::Kind::kDoubtful);
}

TEST(TryConnect, AddressesOnly) {
  EXPECT_EQ(TryConnect("localhost", 1, absl::Seconds(1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TryConnect("127.0.0.1", FindFreePorts(1).value()[0], absl::Seconds(10)).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(CheckOwnAddress("127.0.0.1").ok());
  EXPECT_EQ(CheckOwnAddress("192.0.2.7").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weir
