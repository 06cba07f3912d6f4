#include "distributed/keys/key_files.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "distributed/keys/certificate.h"
#include "distributed/launch/free_ports.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/server.h"
#include "distributed/test_answer.h"
#include "distributed/test_server.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr char kHost[] = "127.0.0.1";

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

// The keys of a job with tasks on this machine.
std::string NewKeys() {
  std::string folder = NewTestDirectory() + "/keys";
  EXPECT_TRUE(MakeKeyFiles({.directory = folder, .hosts = {kHost, "node1"}}).ok());
  return folder;
}

SecurityOptions SecurityIn(const std::string& host_folder) {
  SecurityOptions security;
  security.tls_cert_file = host_folder + "/cert.pem";
  security.tls_key_file = host_folder + "/key.pem";
  security.tls_ca_file = host_folder + "/ca.pem";
  security.token = ReadTokenFile(host_folder + "/token").value();
  return security;
}

TEST(KeyFilesTest, SecretsAreForTheirOwnerOnly) {
  const mode_t before = umask(0);
  const std::string keys = NewKeys();
  umask(before);
  for (const char* name : {"ca.key", "token", "node1/key.pem", "node1/token", "127.0.0.1/key.pem"}) {
    EXPECT_EQ(ModeOf(absl::StrCat(keys, "/", name)), 0600u) << name;
  }
  for (const char* folder : {"", "/node1", "/127.0.0.1"}) EXPECT_EQ(ModeOf(keys + folder), 0700u) << folder;
  EXPECT_EQ(ReadBytes(keys + "/token"), ReadBytes(keys + "/node1/token"));
  EXPECT_NE(ReadBytes(keys + "/token"), ReadBytes(NewKeys() + "/token"));
  EXPECT_NE(ReadBytes(keys + "/node1/key.pem"), ReadBytes(keys + "/127.0.0.1/key.pem"));
  EXPECT_FALSE(PosixFileSystem().Exists(keys + "/node1/ca.key"));
}

TEST(KeyFilesTest, NothingIsOverwritten) {
  const std::string keys = NewKeys();
  const std::string token = ReadBytes(keys + "/token");
  const absl::Status refused = MakeKeyFiles({.directory = keys, .hosts = {"node2"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("keys are never overwritten"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("make all keys of the job in another folder"));
  EXPECT_EQ(ReadBytes(keys + "/token"), token);
}

TEST(KeyFilesTest, MistakesAreNamed) {
  const std::string folder = NewTestDirectory() + "/keys";
  const auto refusal = [&](std::vector<std::string> hosts, int num_days = 1) {
    const absl::Status status = MakeKeyFiles({folder, std::move(hosts), num_days});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  for (const char* bad : {"", "../x", "a/b", ".", "..", "a b", "-x", "a\nb", "a,DNS:evil", "gpu1:2222",
                          "127.0.0.1:2222", "[::1]", "a:b", ":"}) {
    EXPECT_THAT(refusal({bad}), HasSubstr("is no host")) << bad;
  }
  EXPECT_THAT(refusal({std::string(65, 'a')}), HasSubstr("is no host"));
  EXPECT_THAT(refusal({"a", "b", "a"}), HasSubstr("named twice"));
  for (const char* file : {"token", "ca.pem", "ca.key", "revoked.pem"}) {
    EXPECT_THAT(refusal({file}), HasSubstr("like a file"));
  }
  EXPECT_THAT(refusal({}), HasSubstr("1 to 10000 hosts and tasks, got 0"));
  EXPECT_THAT(refusal({"a"}, 0), HasSubstr("valid for 1 to 3650 days, got 0"));
  for (const TaskName& bad :
       {TaskName{"Worker", 0}, TaskName{"a-b", 0}, TaskName{"", 0}, TaskName{"a.b", 0}}) {
    const absl::Status status = MakeKeyFiles({.directory = folder, .hosts = {}, .tasks = {{bad, "gpu1"}}});
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be named in a certificate")) << bad.job;
  }
  EXPECT_THAT(
      std::string(
          MakeKeyFiles({.directory = folder, .hosts = {"ps-0"}, .tasks = {{{"ps", 0}, "gpu1"}}}).message()),
      HasSubstr("cannot be named"));
  for (const char* bad : {"", "ps:0", "ps:0=", "ps=a", "ps:0=a,ps:0=b", "ps:-1=a", "=a"}) {
    EXPECT_THAT(std::string(ParseKeyTasks(bad).status().message()), HasSubstr("is no task with its host"))
        << bad;
  }
  EXPECT_FALSE(PosixFileSystem().Exists(folder));
}

TEST(KeyFilesTest, KeysThatAreNotThereAreNotTakenBack) {
  const std::string keys = NewKeys();
  EXPECT_THAT(std::string(RevokeKeys(keys, {"node7"}).status().message()),
              HasSubstr(absl::StrCat("cannot read '", keys, "/node7/cert.pem': No such file or directory")));
  EXPECT_THAT(std::string(RevokeKeys(keys + "x", {"node1"}).status().message()),
              HasSubstr(absl::StrCat("cannot read '", keys, "x/ca.pem': No such file or directory")));
}

TEST(KeyFilesTest, AnAddressIsAHost) {
  const std::string keys = NewTestDirectory() + "/keys";
  const absl::Status made = MakeKeyFiles({.directory = keys, .hosts = {"::1", "fe80::a:1", "10.0.0.7"}});
  EXPECT_TRUE(made.ok()) << made;
  EXPECT_TRUE(PosixFileSystem().Exists(keys + "/fe80::a:1/key.pem"));
}

TEST(KeyFilesTest, AFolderThatOthersMayChangeIsRefused) {
  const std::string keys = NewTestDirectory();
  const auto refusal = [&](const std::string& folder) {
    const absl::Status status = MakeKeyFiles({.directory = folder, .hosts = {"node1"}});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_FALSE(PosixFileSystem().Exists(keys + "/ca.key"));
    return std::string(status.message());
  };
  const std::string own = absl::StrCat("of the user ", geteuid(), " with mode ");
  for (const mode_t mode : {0777, 0770, 01777}) {
    ASSERT_EQ(chmod(keys.c_str(), mode), 0);
    EXPECT_THAT(refusal(keys),
                HasSubstr(absl::StrCat(keys, " is a folder ", own, absl::StrFormat("%04o", mode))));
  }
  ASSERT_EQ(chmod(keys.c_str(), 0755), 0);
  const std::string link = NewTestDirectory() + "/link";
  ASSERT_EQ(symlink(keys.c_str(), link.c_str()), 0);
  EXPECT_THAT(refusal(link), HasSubstr("is a symbolic link " + own));
  EXPECT_THAT(refusal(link + "/"), HasSubstr("is a symbolic link"));
  const std::string file = NewTestDirectory() + "/file";
  WriteBytes(file, "x");
  EXPECT_THAT(refusal(file), HasSubstr("is no folder but a file"));
  if (chown(keys.c_str(), 12345, 0) == 0) {  // for root only
    EXPECT_THAT(refusal(keys), HasSubstr("is a folder of the user 12345 with mode 0755"));
    ASSERT_EQ(chown(keys.c_str(), geteuid(), getegid()), 0);
  }
  const absl::Status made = MakeKeyFiles({.directory = keys, .hosts = {"node1"}});
  EXPECT_TRUE(made.ok()) << made;
}

// A host's folder that somebody has put there beforehand.
TEST(KeyFilesTest, ALinkInThePlaceOfAHostsFolderIsRefused) {
  const std::string keys = NewTestDirectory(), elsewhere = NewTestDirectory();
  ASSERT_EQ(chmod(keys.c_str(), 0755), 0);
  ASSERT_EQ(symlink(elsewhere.c_str(), (keys + "/node1").c_str()), 0);
  const absl::Status refused = MakeKeyFiles({.directory = keys, .hosts = {"node1"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_FALSE(PosixFileSystem().Exists(elsewhere + "/key.pem"));
}

// Only the first 100 bytes of a file find room: a write that is short sets no errno.
TEST(KeyFilesTest, ATruncatedFileIsAnError) {
  const std::string keys = NewTestDirectory() + "/keys";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = MakeKeyFiles({.directory = keys, .hosts = {"node1"}});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + keys + "/ca.key: File too large"));
  EXPECT_FALSE(PosixFileSystem().Exists(keys)) << "what it began is gone";
  const absl::Status again = MakeKeyFiles({.directory = keys, .hosts = {"node1"}});
  EXPECT_TRUE(again.ok()) << again;
}

// Whatever fails, and however late.
TEST(KeyFilesTest, WhatAFailedRunHasMadeIsRemoved) {
  const std::string keys = NewTestDirectory();
  ASSERT_EQ(chmod(keys.c_str(), 0755), 0);
  ASSERT_EQ(mkdir((keys + "/node2").c_str(), 0700), 0);
  std::ofstream(keys + "/node2/token") << "of somebody else";
  const absl::Status refused = MakeKeyFiles({.directory = keys, .hosts = {"node1", "node2", "node3"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
  EXPECT_EQ(PosixFileSystem().ListDirectory(keys).value(), (std::vector<std::string>{"node2"}));
  EXPECT_EQ(PosixFileSystem().ListDirectory(keys + "/node2").value(), (std::vector<std::string>{"token"}));
  EXPECT_EQ(ReadBytes(keys + "/node2/token"), "of somebody else");
  EXPECT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"node1"}}).ok());
}

TEST(KeyFilesTest, AClusterRunsWithThem) {
  const std::string keys = NewKeys();
  ClusterSpec cluster;
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  ASSERT_TRUE(cluster.AddTask({"ps", 0}, absl::StrCat(kHost, ":", ports[0])).ok());
  ASSERT_TRUE(cluster.AddTask({"worker", 0}, absl::StrCat(kHost, ":", ports[1])).ok());
  ServerOptions options;
  options.num_threads = 1;
  options.security = SecurityIn(absl::StrCat(keys, "/", kHost));
  auto ps = Server::Start(TaskConfig::Create(cluster, {"ps", 0}).value(), options).value();
  auto worker = Server::Start(TaskConfig::Create(cluster, {"worker", 0}).value(), options).value();
  CounterModel model(*worker);
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  EXPECT_THAT(Values(session->Run({}, {model.doubled}, {}).value()[0]), testing::ElementsAre(2, 4));
}

// Servers and callers refuse one another unless both have certificates of one CA that are valid now.
class ForeignKeysTest : public testing::Test {
 protected:
  ForeignKeysTest() : keys_(NewKeys()), good_(SecurityIn(absl::StrCat(keys_, "/", kHost))) {}

  // What a caller is told by a server with these keys.
  static absl::Status Call(const SecurityOptions& server, const SecurityOptions& caller) {
    const auto serving = MakeGrpcTransport({.security = server}).value();
    const auto listener = serving->Listen(absl::StrCat(kHost, ":0"), Echo).value();
    const auto calling = MakeGrpcTransport({.security = caller}).value();
    const auto channel = calling->Connect({"ps", 0}, listener->address()).value();
    return CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Seconds(30))).status();
  }

  // Keys of a host that the CA of `authority` has signed, valid until `end`.
  SecurityOptions KeysValidUntil(absl::Time end) {
    const Certificate authority =
        MakeAuthority("weir test CA", absl::UnixEpoch(), absl::Now() + absl::Hours(1)).value();
    const Certificate host = MakeHostCertificate(kHost, authority, end - absl::Hours(24), end).value();
    const std::string folder = NewTestDirectory();
    WriteBytes(folder + "/cert.pem", host.CertificatePem().value());
    WriteBytes(folder + "/key.pem", host.KeyPem().value());
    WriteBytes(folder + "/ca.pem", authority.CertificatePem().value());
    WriteBytes(folder + "/token", good_.token);
    return SecurityIn(folder);
  }

  const std::string keys_;
  const SecurityOptions good_;
};

TEST_F(ForeignKeysTest, TheSameJobsAreAccepted) {
  EXPECT_TRUE(Call(good_, good_).ok()) << Call(good_, good_);
  const SecurityOptions valid = KeysValidUntil(absl::Now() + absl::Hours(1));
  EXPECT_TRUE(Call(valid, valid).ok()) << Call(valid, valid);
}

TEST_F(ForeignKeysTest, AnotherJobsAreRefused) {
  SecurityOptions other = SecurityIn(absl::StrCat(NewKeys(), "/", kHost));
  other.token = good_.token;
  EXPECT_EQ(Call(good_, other).code(), absl::StatusCode::kUnavailable);
  // It trusts the server's CA, but its own certificate is signed by another.
  other.tls_ca_file = good_.tls_ca_file;
  EXPECT_FALSE(Call(good_, other).ok());
  // And one with no certificate of its own.
  other.tls_cert_file = other.tls_key_file = "";
  EXPECT_FALSE(Call(good_, other).ok());
}

TEST_F(ForeignKeysTest, ExpiredOnesAreRefused) {
  const SecurityOptions expired = KeysValidUntil(absl::Now() - absl::Hours(2));
  EXPECT_FALSE(Call(expired, expired).ok());
  const SecurityOptions early = KeysValidUntil(absl::Now() + absl::Hours(48));
  EXPECT_FALSE(Call(early, early).ok());
}

TEST_F(ForeignKeysTest, ACertificateIsForItsHostOnly) {
  const SecurityOptions other_host = SecurityIn(keys_ + "/node1");
  EXPECT_FALSE(Call(other_host, good_).ok());  // a server at 127.0.0.1 that is node1
  EXPECT_TRUE(Call(good_, other_host).ok());   // a caller may come from anywhere
}

TEST_F(ForeignKeysTest, TheRightCertificateWithAnotherTokenIsRefused) {
  SecurityOptions caller = good_;
  caller.token = "another-token-of-another-job";
  EXPECT_EQ(Call(good_, caller).code(), absl::StatusCode::kUnauthenticated);
}

// Keys of tasks: each speaks for itself only.
class TaskKeysTest : public testing::Test {
 protected:
  TaskKeysTest() : keys_(NewTestDirectory() + "/keys") {
    std::map<TaskName, std::string> tasks;
    const TaskName names[] = {{"ps", 0}, {"worker", 0}, {"worker", 1}};
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(cluster_.AddTask(names[i], absl::StrCat(kHost, ":", ports_[i])).ok());
      tasks[names[i]] = kHost;
    }
    EXPECT_TRUE(MakeKeyFiles({.directory = keys_, .hosts = {kHost}, .tasks = tasks}).ok());
  }

  SecurityOptions Security(const std::string& folder) const {
    SecurityOptions security = SecurityIn(absl::StrCat(keys_, "/", folder));
    security.tls_task_names = true;
    return security;
  }

  absl::StatusOr<std::unique_ptr<Server>> Start(const TaskName& task, const SecurityOptions& security) const {
    ServerOptions options;
    options.num_threads = 1;
    options.security = security;
    return Server::Start(TaskConfig::Create(cluster_, task).value(), options);
  }

  // What ps:0 says to a heartbeat of `sender` from a caller with these keys.
  absl::Status Heartbeat(const TaskName& sender, const SecurityOptions& caller,
                         const TaskName& called = {"ps", 0}) const {
    const auto transport = MakeGrpcTransport({.security = caller}).value();
    const auto channel = transport->Connect(called, cluster_.address({"ps", 0}).value()).value();
    WireWriter writer;
    Envelope{sender, 7, 0}.EncodeTo(&writer);
    Frame frame;
    frame.header = writer.Take();
    return AnswerOf(*channel, kHeartbeatMethod, std::move(frame), Within(absl::Seconds(30)));
  }

  const std::string keys_;
  const ReservedPorts ports_ = ReservedPorts::Take(3).value();
  ClusterSpec cluster_;
};

TEST_F(TaskKeysTest, ACallerSpeaksForTheTaskOfItsCertificateOnly) {
  const auto ps = Start({"ps", 0}, Security("ps-0")).value();
  EXPECT_TRUE(Heartbeat({"worker", 1}, Security("worker-1")).ok());
  for (const auto& [sender, folder] :
       std::vector<std::pair<TaskName, std::string>>{{{"worker", 1}, "worker-0"},
                                                     {{"ps", 0}, "worker-1"},
                                                     {{"worker", 0}, kHost},
                                                     {{"worker", 0}, "ps-0"}}) {
    const absl::Status refused = Heartbeat(sender, Security(folder));
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("a call for ", sender.ToString(), " came with a certificate of ",
                                       folder == kHost ? "no task" : folder)));
  }
  EXPECT_TRUE(Heartbeat({"worker", 0}, Security("worker-0")).ok());
}

TEST_F(TaskKeysTest, AServerIsTheTaskThatIsCalled) {
  const auto ps = Start({"ps", 0}, Security("ps-0")).value();
  // worker:1's address leads to ps:0, which has no certificate of worker:1.
  EXPECT_EQ(Heartbeat({"worker", 0}, Security("worker-0"), {"worker", 1}).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(TaskKeysTest, AServerWithAnotherTasksKeysSaysSo) {
  for (const char* folder : {"worker-1", kHost}) {
    const absl::Status refused = Start({"ps", 0}, Security(folder)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("must be for ps-0.task.weir"));
  }
  SecurityOptions security = Security("ps-0");
  security.tls_ca_file.clear();
  EXPECT_THAT(std::string(Start({"ps", 0}, security).status().message()),
              HasSubstr("needs a certificate, its key and a CA"));
  security = Security("ps-0");
  security.tls_server_name = "x";
  EXPECT_THAT(std::string(Start({"ps", 0}, security).status().message()), HasSubstr("not both"));
}

TEST_F(TaskKeysTest, AClusterRunsWithThem) {
  auto ps = Start({"ps", 0}, Security("ps-0")).value();
  auto worker = Start({"worker", 0}, Security("worker-0")).value();
  CounterModel model(*worker);
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  EXPECT_THAT(Values(session->Run({}, {model.doubled}, {}).value()[0]), testing::ElementsAre(2, 4));
}

// One way: servers show certificates, callers a token. A task without a CA takes the roots of its system, or
// those of gRPC's variable.
TEST(OneWayTlsTest, ACallerChecksTheServerAndShowsAToken) {
  const std::string keys = NewKeys() + "/" + kHost;
  setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", (keys + "/ca.pem").c_str(), 1);
  SecurityOptions one_way = SecurityIn(keys);
  one_way.tls_ca_file.clear();
  const auto server = MakeGrpcTransport({.security = one_way}).value();
  const auto listener =
      server->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) { call->Reply(Frame()); }).value();
  const auto call = [&](const SecurityOptions& caller) {
    const auto transport = MakeGrpcTransport({.security = caller}).value();
    const auto channel = transport->Connect({"ps", 0}, listener->address()).value();
    return CallAndWait(*channel, "/weir.Test/Call", {}, Within(absl::Seconds(20))).status();
  };
  EXPECT_TRUE(call(one_way).ok()) << call(one_way);
  const SecurityOptions caller = {.token = one_way.token, .tls_ca_file = keys + "/ca.pem"};
  EXPECT_TRUE(call(caller).ok()) << call(caller);
  EXPECT_EQ(call({.tls_ca_file = keys + "/ca.pem"}).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(call({.token = one_way.token}).code(), absl::StatusCode::kUnavailable) << "without TLS";
  const SecurityOptions other = {.token = one_way.token, .tls_ca_file = NewKeys() + "/" + kHost + "/ca.pem"};
  EXPECT_EQ(call(other).code(), absl::StatusCode::kUnavailable) << "the server is somebody else's";
  // A task is both: one whose callers need a certificate lets no one-way caller in.
  const auto mutual_server = MakeGrpcTransport({.security = SecurityIn(keys)}).value();
  const auto mutual =
      mutual_server->Listen("127.0.0.1:0", [](std::shared_ptr<IncomingCall> call) { call->Reply(Frame()); })
          .value();
  const auto transport = MakeGrpcTransport({.security = caller}).value();
  const auto channel = transport->Connect({"ps", 0}, mutual->address()).value();
  EXPECT_EQ(CallAndWait(*channel, "/weir.Test/Call", {}, Within(absl::Seconds(20))).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace weir
