// A certificate that is taken back while its holder has more than gRPC: a connection that is open, and a
// ticket for further ones.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/keys/key_files.h"
#include "distributed/keys/revocation_list.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/task_status.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/sockets/test_socket_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// Whether the sockets are TCP, or else Unix sockets.
class RevokedCertificatesTest : public testing::TestWithParam<bool> {
 protected:
  RevokedCertificatesTest() {
    EXPECT_TRUE(MakeKeyFiles({.directory = keys_, .hosts = {"127.0.0.1", "gpu1", "gpu2"}}).ok());
    EXPECT_TRUE(RevokeKeys(keys_, {"gpu2"}).ok());
    ClusterSpec cluster;
    EXPECT_TRUE(cluster.AddTask({"ps", 0}, address_).ok());
    EXPECT_TRUE(cluster.AddTask({"worker", 0}, "127.0.0.1:1").ok());
    ServerOptions options;
    options.num_threads = 1;
    options.listen = "";
    options.security = Keys("127.0.0.1");
    options.security.tls_revoked_file = keys_ + "/revoked.pem";
    options.uses_host_sockets = !GetParam();
    server_ = Server::Start(TaskConfig::Create(cluster, {"ps", 0}).value(), options).value();
  }

  SecurityOptions Keys(const std::string& host) const {
    SecurityOptions security;
    security.tls_cert_file = absl::StrCat(keys_, "/", host, "/cert.pem");
    security.tls_key_file = absl::StrCat(keys_, "/", host, "/key.pem");
    security.tls_ca_file = keys_ + "/ca.pem";
    return security;
  }
  std::unique_ptr<Transport> NetworkOf(const std::string& host) const {
    return MakeGrpcTransport({.security = Keys(host)}).value();
  }
  std::unique_ptr<Transport> SocketsOf(const std::string& host) const {
    SocketTransportOptions options;
    options.retry_delay = absl::Milliseconds(1);
    if (GetParam()) options = OnlyTcp(options);
    options.encrypts_tcp = true;
    return MakeSocketTransport(NetworkOf(host), options).value();
  }
  // What it hears that asks how the task is.
  static std::string Told(Channel& channel) {
    return std::string(CallAndWait(channel, kTaskStatusMethod).status().message());
  }

  const std::string keys_ = NewTestDirectory() + "/keys";
  const ReservedPorts ports_ = ReservedPorts::Take(1).value();
  const std::string address_ = absl::StrCat("127.0.0.1:", ports_[0]);
  std::unique_ptr<Server> server_;
};

TEST_P(RevokedCertificatesTest, IsRefusedOnAConnectionThatIsOpen) {
  const auto thief = SocketsOf("gpu1"), good = SocketsOf("127.0.0.1");
  const auto stolen = thief->Connect({"ps", 0}, address_).value(),
             other = good->Connect({"ps", 0}, address_).value();
  ASSERT_TRUE(AwaitSocket(*stolen) && AwaitSocket(*other));
  EXPECT_EQ(Told(*stolen), "");
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  absl::SleepFor(RevocationList::kLookInterval);
  EXPECT_THAT(Told(*stolen), HasSubstr("the caller's certificate is revoked"));
  EXPECT_EQ(Told(*other), "");
  EXPECT_TRUE(UsesSocket(*other));
}

TEST_P(RevokedCertificatesTest, OpensNoConnectionWithATicketThatItHas) {
  if (GetParam()) GTEST_SKIP() << "the client of the test does not speak TLS";
  const auto network = NetworkOf("gpu1"), others = NetworkOf("127.0.0.1");
  const FoundSockets stolen = FindSockets(*network, address_), other = FindSockets(*others, address_);
  {
    RawClient before(stolen);
    EXPECT_TRUE(before.Greet());
    EXPECT_TRUE(before.IsWelcome(/*and_may_lend=*/false));
  }
  ASSERT_TRUE(RevokeKeys(keys_, {"gpu1"}).ok());
  absl::SleepFor(RevocationList::kLookInterval);
  RawClient thief(stolen);
  thief.Greet();
  EXPECT_TRUE(thief.IsSentAway());
  RawClient good(other);
  EXPECT_TRUE(good.Greet());
  EXPECT_TRUE(good.IsWelcome(/*and_may_lend=*/false));
}

INSTANTIATE_TEST_SUITE_P(Sockets, RevokedCertificatesTest, testing::Bool());

}  // namespace
}  // namespace weir
