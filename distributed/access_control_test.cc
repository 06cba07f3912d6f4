// Attempts to use a task without the right to: each is refused with a text that says why, or closed; nothing
// of it is done; and a good client is served after each.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/environment/host_list.h"
#include "distributed/keys/certificate.h"
#include "distributed/keys/key_files.h"
#include "distributed/keys/revocation_list.h"
#include "distributed/launch/free_ports.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/server.h"
#include "distributed/task_status.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"
#include "session/local_worker.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef-of-this-job";
constexpr char kNoToken[] = "does not carry this job's token";

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class AccessControlTest : public ::testing::Test {
 protected:
  AccessControlTest() {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(cluster_.AddTask({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).ok());
    EXPECT_TRUE(cluster_.AddTask({"worker", 0}, "127.0.0.1:1").ok());
    options_.num_threads = 1;
    options_.listen = "";
    options_.security = SecurityOptions();
    options_.security.token = kToken;
  }

  void Start() {
    server_ = Server::Start(TaskConfig::Create(cluster_, {"ps", 0}).value(), options_).value();
    transport_ = MakeGrpcTransport({.security = options_.security}).value();
    channel_ = transport_->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
    ExpectThatItServes("at first");
    memory_ = ResidentBytes();
  }

  void ExpectThatItServes(const std::string& after) {
    const absl::Status status =
        CallAndWait(*channel_, kTaskStatusMethod, {}, Within(absl::Seconds(60))).status();
    EXPECT_TRUE(status.ok()) << "after " << after << ": " << status;
  }

  // What the server says on a connection of its own to these bytes, until it closes or has said `text`.
  std::string Say(const std::string& bytes, absl::string_view text) {
    RawConnection attacker(port_);
    attacker.Write(bytes);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (attacker.heard().find(std::string(text)) == std::string::npos && absl::Now() < deadline) {
      if (attacker.AwaitClose(absl::Milliseconds(5))) break;
    }
    return attacker.heard();
  }

  void Refused(const std::string& name, const std::string& told, absl::string_view text) {
    EXPECT_THAT(told, HasSubstr(std::string(text))) << name;
    EXPECT_THAT(told, Not(HasSubstr(kToken))) << name;
    ++num_attempts_;
    ExpectThatItServes(name);
  }

  // The connection is closed without an answer to a call.
  void Closed(const std::string& name, const std::string& bytes) {
    RawConnection attacker(port_);
    attacker.Write(bytes);
    EXPECT_TRUE(attacker.AwaitClose(absl::Seconds(60))) << name;
    EXPECT_THAT(attacker.heard(), Not(HasSubstr(kToken))) << name;
    ++num_attempts_;
    ExpectThatItServes(name);
  }

  void TearDown() override {
    if (server_ != nullptr) {
      EXPECT_EQ(server_->local_worker().num_plans(), 0);
      EXPECT_EQ(server_->membership().state({"worker", 0}), Membership::State::kUnknown);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what was freed
      // ThreadSanitizer, which --config=tsan gives options, notes what each thread does.
      if (std::getenv("TSAN_OPTIONS") == nullptr) {
        EXPECT_LT(ResidentBytes() - memory_, 50 << 20);
      }
#endif
      channel_.reset();
      server_.reset();
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr(kToken)));
    std::printf("%d attempts\n", num_attempts_);
  }

  const ReservedPorts ports_ = ReservedPorts::Take(1).value();
  const int port_ = ports_[0];
  int num_attempts_ = 0;
  int64_t memory_ = 0;
  ClusterSpec cluster_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Channel> channel_;
};

std::vector<std::string> WrongTokens() {
  const std::string good = kToken;
  std::vector<std::string> wrong = {"",
                                    "x",
                                    good.substr(0, 16),
                                    good.substr(0, good.size() - 1),
                                    good.substr(1),
                                    good + "x",
                                    good + " ",
                                    " " + good,
                                    good + good,
                                    absl::AsciiStrToUpper(good),
                                    std::string(good.rbegin(), good.rend()),
                                    good + std::string(1, '\0'),
                                    std::string(good.size(), '0'),
                                    "fedcba9876543210-of-another-job",
                                    "Bearer " + good,
                                    "%30" + good.substr(1),
                                    "*",
                                    "\"" + good + "\""};
  for (const size_t i : {size_t{0}, good.size() / 2, good.size() - 1}) {
    std::string changed = good;
    changed[i] ^= 1;
    wrong.push_back(changed);
  }
  return wrong;
}

// Every method with every wrong token.
TEST_F(AccessControlTest, NoCallWithoutTheToken) {
  Start();
  for (const char* method :
       {kHeartbeatMethod, kJoinMethod, kRegisterPartitionMethod, kRunPartitionMethod, kPushTensorsMethod,
        kDeregisterPartitionMethod, kTaskStatusMethod, "/tensorflow.WorkerService/RunGraph",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/grpc.health.v2.Health/Watch"}) {
    for (const std::string& token : WrongTokens()) {
      const std::string told = Say(absl::StrCat(Http2Greeting(), Http2Call(1, method, token)), kNoToken);
      Refused(absl::StrCat(method, " with '", token, "'"), told,
              absl::StrCat(method, ": the call ", kNoToken));
    }
  }
  EXPECT_GE(num_attempts_, 200);
}

TEST_F(AccessControlTest, WhatIsNoCallIsClosed) {
  Start();
  constexpr int kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4, kPush = 5, kPing = 6,
                kGoAway = 7, kWindow = 8, kContinuation = 9;
  const std::string begin = Http2Greeting();
  const auto many = [](const std::string& frame) {
    std::string frames;
    while (frames.size() < 100'000) frames += frame;
    return frames;
  };
  std::mt19937 random(9);
  std::string noise(5000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  std::string bomb =
      std::string("\x40\x01x\x7f\x81\x1e", 6) + std::string(3968, 'a');  // kept, then named again
  bomb += std::string(10'000, '\xbe');
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.1", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
           {"HTTP/1.1 upgrade", "GET / HTTP/1.1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"},
           {"POST", "POST /weir.Worker/Heartbeat HTTP/1.1\r\nweir-token: x\r\n\r\n"},
           {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
           {"SSH", "SSH-2.0-OpenSSH_9.2\r\n"},
           {"random bytes", noise},
           {"zeros", std::string(1000, '\0')},
           {"preface cut by a line", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"},
           {"frame of 16 MiB", begin + std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9)},
           {"frame above the limit", begin + Http2Frame(kData, 0, 1, std::string(16'385, 'x'))},
           {"headers of no stream", begin + Http2Frame(kHeaders, 4, 0, "\x88")},
           {"headers in pieces", begin + Http2Frame(kHeaders, 0, 1, "\x88")},
           {"endless continuation",
            begin + Http2Frame(kHeaders, 0, 1, "") + many(Http2Frame(kContinuation, 0, 1, "x"))},
           {"padding above the frame", begin + Http2Frame(kHeaders, 4 | 8, 1, "\xff\x88")},
           {"header index 0", begin + Http2Frame(kHeaders, 4, 1, "\x80")},
           {"header index beyond", begin + Http2Frame(kHeaders, 4, 1, "\xff\xff\x7f")},
           {"header string beyond", begin + Http2Frame(kHeaders, 4, 1, std::string("\0\x7f\x81\x1e", 4))},
           {"header number without end", begin + Http2Frame(kHeaders, 4, 1, "\xff\xff\xff\xff\xff\xff\xff")},
           {"Huffman without end",
            begin + Http2Frame(kHeaders, 4, 1, std::string("\0\x84\xff\xff\xff\xff\x00", 7))},
           {"push promise", begin + Http2Frame(kPush, 4, 1, "abcd")},
           {"go away", begin + Http2Frame(kGoAway, 0, 0, "abcdefgh")},
           {"many settings", begin + many(Http2Frame(kSettings, 0, 0, std::string("\0\3\0\0\0\1", 6)))},
           {"many acknowledgements", begin + many(Http2Frame(kSettings, 1, 0, ""))},
           {"many pings", begin + many(Http2Frame(kPing, 0, 0, "12345678"))},
           {"many resets", begin + many(Http2Frame(kReset, 0, 1, "abcd"))},
           {"many windows", begin + many(Http2Frame(kWindow, 0, 0, std::string("\x7f\xff\xff\xff", 4)))},
           {"many priorities", begin + many(Http2Frame(kPriority, 0, 1, "abcde"))},
           {"data of no call", begin + many(Http2Frame(kData, 0, 1, "x"))},
           {"unknown frames", begin + many(Http2Frame(77, 0, 1, "x"))},
           {"many calls", begin + many(Http2Call(1, "/weir.Worker/Heartbeat"))}}) {
    Closed(name, bytes);
  }
  // Headers that refer to a long one 10,000 times.
  Say(begin + Http2Frame(kHeaders, 4, 1, bomb), kNoToken);
  ++num_attempts_;
  ExpectThatItServes("headers that grow");
}

TEST_F(AccessControlTest, AThousandHalfOpenConnectionsKeepNobodyOut) {
  Start();
  std::vector<std::unique_ptr<RawConnection>> half_open;
  for (int i = 0; i < 1000; ++i) {
    half_open.push_back(std::make_unique<RawConnection>(port_));
    if (i % 2 == 0) half_open.back()->Write(Http2Greeting().substr(0, i % 30));
  }
  num_attempts_ += 1000;
  const auto fresh = transport_->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
  EXPECT_TRUE(CallAndWait(*fresh, kTaskStatusMethod, {}, Within(absl::Seconds(60))).ok());
  ExpectThatItServes("half-open connections");
}

// A handshake cannot be read here: it is bounded in number, and by the time until the first call is let in.
TEST_F(AccessControlTest, HandshakesThatNeverEndKeepNobodyOut) {
  const std::string keys = NewTestDirectory() + "/keys";
  ASSERT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"127.0.0.1"}}).ok());
  options_.security.token = kToken;
  options_.security.tls_cert_file = keys + "/127.0.0.1/cert.pem";
  options_.security.tls_key_file = keys + "/127.0.0.1/key.pem";
  options_.security.tls_ca_file = keys + "/ca.pem";
  Start();
  const auto transport = MakeGrpcTransport({.security = options_.security}).value();
  const auto connect = [&] {
    return transport->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
  };
  const auto is_served = [](Channel& channel) {
    return CallAndWait(channel, kTaskStatusMethod, {}, Within(absl::Seconds(60))).ok();
  };
  const auto known = connect();
  EXPECT_TRUE(is_served(*known));
  std::vector<std::unique_ptr<RawConnection>> half_open;
  for (int i = 0; i < 300; ++i) {
    half_open.push_back(std::make_unique<RawConnection>(port_));
    if (i % 2 == 0) half_open.back()->Write(std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  num_attempts_ += 300;
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(half_open[i]->AwaitClose()) << i;
  EXPECT_TRUE(is_served(*known));
  EXPECT_TRUE(is_served(*connect()));
}

// With the token: services that are not there, and who speaks for a task that does not exist or is gone.
TEST_F(AccessControlTest, TheTokenOpensNoOtherServices) {
  Start();
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                             "/grpc.channelz.v1.Channelz/GetServers", "/grpc.health.v1.Health/Watch",
                             "/tensorflow.MasterService/CreateSession", "/tensorflow.WorkerService/RunGraph",
                             "/tensorflow.eager.EagerService/Enqueue", "/admin.Server/Shutdown", "/", ""}) {
    const absl::Status status = CallAndWait(*channel_, method, {}, Within(absl::Seconds(60))).status();
    EXPECT_FALSE(status.ok()) << method;
    ++num_attempts_;
    ExpectThatItServes(method);
  }
  for (const auto& [sender, life, addressee] : std::vector<std::tuple<TaskName, Incarnation, Incarnation>>{
           {{"worker", 1}, 7, 0}, {{"chef", 0}, 7, 0}, {{"", 0}, 7, 0}, {{"worker", 0}, 0, 0}}) {
    WireWriter writer;
    Envelope{sender, life, addressee}.EncodeTo(&writer);
    Frame frame;
    frame.header = writer.Take();
    const absl::StatusOr<Frame> reply =
        CallAndWait(*channel_, kHeartbeatMethod, std::move(frame), Within(absl::Seconds(60)));
    ASSERT_TRUE(reply.ok()) << reply.status();
    Incarnation replier = 0;
    WireReader reader(reply->header);
    const absl::Status refused = DecodeReplyStatus(&reader, &replier);
    EXPECT_FALSE(refused.ok());
    Refused(sender.ToString(), refused.ToString(), sender.job);
  }
}

// With TLS, a CA and names of tasks: every other certificate.
TEST_F(AccessControlTest, NoCallWithoutTheRightCertificate) {
  const std::string keys = NewTestDirectory() + "/keys", others = NewTestDirectory() + "/keys";
  const std::map<TaskName, std::string> tasks = {{{"ps", 0}, "127.0.0.1"}, {{"worker", 0}, "127.0.0.1"}};
  ASSERT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"127.0.0.1", "127.0.0.2"}, .tasks = tasks}).ok());
  ASSERT_TRUE(MakeKeyFiles({.directory = others, .hosts = {}, .tasks = tasks}).ok());
  const auto security = [&](const std::string& certificates, const std::string& ca) {
    SecurityOptions security;
    security.token = kToken;
    security.tls_cert_file = certificates + "/cert.pem";
    security.tls_key_file = certificates + "/key.pem";
    security.tls_ca_file = ca + "/ca.pem";
    security.tls_task_names = true;
    return security;
  };
  options_.security = security(keys + "/ps-0", keys);
  ASSERT_TRUE(RevokeKeys(keys, {"127.0.0.2"}).ok());
  options_.security.tls_revoked_file = keys + "/revoked.pem";
  Start();
  const auto told = [&](const SecurityOptions& caller, const TaskName& called = {"ps", 0}) {
    const auto transport = MakeGrpcTransport({.security = caller}).value();
    const auto channel = transport->Connect(called, absl::StrCat("127.0.0.1:", port_)).value();
    WireWriter writer;
    Envelope{{"worker", 0}, 7, 99}.EncodeTo(&writer);  // would be Aborted: for another life
    Frame frame;
    frame.header = writer.Take();
    const absl::StatusOr<Frame> reply =
        CallAndWait(*channel, kHeartbeatMethod, std::move(frame), Within(absl::Seconds(30)));
    return reply.ok() ? "it was let in" : reply.status().ToString();
  };
  EXPECT_EQ(told(security(keys + "/worker-0", keys)), "it was let in");
  server_->Shutdown();
  server_ = Server::Start(TaskConfig::Create(cluster_, {"ps", 0}).value(), options_).value();
  channel_ = transport_->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();

  SecurityOptions plain;
  plain.token = kToken;
  Refused("no TLS", told(plain), "UNAVAILABLE");
  SecurityOptions none = security(keys + "/worker-0", keys);
  none.tls_cert_file = none.tls_key_file = "";
  none.tls_task_names = false;
  none.tls_server_name = CertificateNameOf({"ps", 0});
  Refused("no certificate", told(none), "UNAVAILABLE");
  Refused("a certificate of another CA", told(security(others + "/worker-0", keys)), "UNAVAILABLE");
  Refused("another job's keys", told(security(others + "/worker-0", others)), "UNAVAILABLE");
  Refused("a certificate of the ps", told(security(keys + "/ps-0", keys)), "not worker-0.task.weir");
  Refused("a certificate of a host", told(security(keys + "/127.0.0.1", keys)), "of no task");
  Refused("a revoked certificate", told(security(keys + "/127.0.0.2", keys)), "is revoked");
  WriteBytes(keys + "/revoked.pem", "no list");  // the one before counts
  Refused("a revoked certificate", told(security(keys + "/127.0.0.2", keys)), "is revoked");
  Refused("another task's address", told(security(keys + "/worker-0", keys), {"worker", 0}), "UNAVAILABLE");
  SecurityOptions other_token = security(keys + "/worker-0", keys);
  other_token.token = "fedcba9876543210-of-another-job";
  Refused("another job's token", told(other_token), kNoToken);
  other_token.token = "";
  Refused("no token", told(other_token), kNoToken);
  // Certificates of the right CA, but of another time, or signed by themselves.
  const Certificate authority =
      MakeAuthority("weir test CA", absl::UnixEpoch(), absl::Now() + absl::Hours(1)).value();
  const auto made = [&](const Certificate& certificate) {
    const std::string folder = NewTestDirectory();
    WriteBytes(folder + "/cert.pem", certificate.CertificatePem().value());
    WriteBytes(folder + "/key.pem", certificate.KeyPem().value());
    return folder;
  };
  const std::string name = CertificateNameOf({"worker", 0});
  const absl::Time now = absl::Now();
  for (const auto& [what, begin, end] : std::vector<std::tuple<std::string, absl::Time, absl::Time>>{
           {"expired", now - absl::Hours(48), now - absl::Hours(1)},
           {"not yet valid", now + absl::Hours(24), now + absl::Hours(48)},
           {"of an unknown CA", now - absl::Hours(1), now + absl::Hours(48)}}) {
    const Certificate certificate = MakeHostCertificate("127.0.0.1", authority, begin, end, name).value();
    Refused(what, told(security(made(certificate), keys)), "UNAVAILABLE");
  }
  Refused("signed by itself",
          told(security(made(MakeAuthority(name, now - absl::Hours(1), now + absl::Hours(1)).value()), keys)),
          "UNAVAILABLE");
  // Old versions of TLS; without the command there is nobody to speak them.
  for (const char* version : {"-tls1", "-tls1_1"}) {
    const std::string command = absl::StrCat(
        "command -v openssl > /dev/null && openssl s_client ", version, " -connect 127.0.0.1:", port_,
        " -cert ", keys, "/worker-0/cert.pem -key ", keys, "/worker-0/key.pem -CAfile ", keys,
        "/ca.pem -verify_return_error < /dev/null > /dev/null 2>&1");
    EXPECT_NE(std::system(command.c_str()), 0) << version;
    ++num_attempts_;
    ExpectThatItServes(version);
  }
  Closed("plain HTTP/2 to TLS", absl::StrCat(Http2Greeting(), Http2Call(1, kHeartbeatMethod, kToken)));
  Closed("HTTP/1.1 to TLS", "GET / HTTP/1.1\r\n\r\n");
  // Taken back while the server runs.
  EXPECT_EQ(told(security(keys + "/worker-0", keys)), "it was let in");
  ASSERT_EQ(unlink((keys + "/revoked.pem").c_str()), 0);
  ASSERT_TRUE(RevokeKeys(keys, {"worker-0"}).ok());
  absl::SleepFor(RevocationList::kLookInterval);
  Refused("a certificate taken back", told(security(keys + "/worker-0", keys)), "is revoked");
  server_->Shutdown();
  server_ = Server::Start(TaskConfig::Create(cluster_, {"ps", 0}).value(), options_).value();
}

// Guests (guests.h) need a certificate of the name under which they join, or the token.
TEST_F(AccessControlTest, NobodyJoinsARunningJobWithoutTheRight) {
  const std::string keys = NewTestDirectory() + "/keys";
  const TaskName guest = {"worker", 5};
  const std::map<TaskName, std::string> tasks = {
      {{"ps", 0}, "127.0.0.1"}, {{"worker", 0}, "127.0.0.1"}, {guest, "127.0.0.1"}};
  ASSERT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {}, .tasks = tasks}).ok());
  const auto security = [&](const std::string& task) {
    SecurityOptions security;
    security.token = kToken;
    security.tls_cert_file = absl::StrCat(keys, "/", task, "/cert.pem");
    security.tls_key_file = absl::StrCat(keys, "/", task, "/key.pem");
    security.tls_ca_file = keys + "/ca.pem";
    security.tls_task_names = true;
    return security;
  };
  options_.security = security("ps-0");
  options_.max_workers = 3;
  options_.lease = absl::Milliseconds(300);
  Start();
  // Before, it gives no places to guests.
  while (!server_->membership().ViewSince({}).is_settled) absl::SleepFor(absl::Milliseconds(10));
  const auto told = [&](const SecurityOptions& caller, const std::string& address) {
    const auto transport = MakeGrpcTransport({.security = caller}).value();
    const auto channel = transport->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", port_)).value();
    WireWriter writer;
    Envelope{guest}.EncodeTo(&writer);
    EncodeJoin({.age = absl::Seconds(1), .address = address}, &writer);
    Frame frame;
    frame.header = writer.Take();
    const absl::StatusOr<Frame> reply =
        CallAndWait(*channel, kJoinMethod, std::move(frame), Within(absl::Seconds(30)));
    if (!reply.ok()) return reply.status().ToString();
    WireReader reader(reply->header);
    Incarnation replier = 0;
    const absl::Status answer = DecodeReplyStatus(&reader, &replier);
    return answer.ok() ? "it was let in" : answer.ToString();
  };
  Refused("another task's certificate", told(security("worker-0"), "127.0.0.1:7777"),
          "not worker-5.task.weir");
  SecurityOptions no_token = security("worker-5");
  no_token.token = "";
  Refused("no token", told(no_token, "127.0.0.1:7777"), kNoToken);
  Refused("the address of the ps", told(security("worker-5"), absl::StrCat("127.0.0.1:", port_)),
          "already belongs to ps:0");
  Refused("no address", told(security("worker-5"), ""), "has no port");
  Refused("a command", told(security("worker-5"), "$(reboot):1"), "cannot be in a host name");
  EXPECT_EQ(server_->membership().tasks().size(), 2u);
  EXPECT_EQ(told(security("worker-5"), "127.0.0.1:7777"), "it was let in");
  EXPECT_EQ(server_->membership().AddressOfGuest(guest), "127.0.0.1:7777");
}

// Names of hosts go into ssh's command line.
TEST_F(AccessControlTest, HostsThatAreCommandsAreRefused) {
  for (const std::string& host : {std::string("-oProxyCommand=reboot"),
                                  std::string("a;reboot"),
                                  std::string("a&b"),
                                  std::string("$(reboot)"),
                                  std::string("`reboot`"),
                                  std::string("a|b"),
                                  std::string("a>b"),
                                  std::string("a<b"),
                                  std::string("a\nb"),
                                  std::string("a b"),
                                  std::string("a\tb"),
                                  std::string("'a"),
                                  std::string("\"a"),
                                  std::string("a\\b"),
                                  std::string("a\0b", 3),
                                  std::string("a*"),
                                  std::string("a?"),
                                  std::string("~root"),
                                  std::string("a/b"),
                                  std::string("../a"),
                                  std::string("a{b}"),
                                  std::string("a!b"),
                                  std::string("a#b"),
                                  std::string("a%b"),
                                  std::string(300, 'a')}) {
    const auto parsed = ParseHostSlots("-H", host);
    EXPECT_FALSE(parsed.ok()) << host;
    EXPECT_LT(parsed.status().message().size(), 1000u);
    ++num_attempts_;
  }
}

}  // namespace
}  // namespace weir
