// What is peculiar to gRPC. The contract of a transport is tested in transport_test.cc.
#include "distributed/transport/grpc/grpc_transport.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/security.h"
#include "distributed/transport/grpc/raw_connection.h"
#include "distributed/transport/listening_sockets.h"
#include "distributed/transport/test_calls.h"
#include "gmock/gmock.h"
#include "graph/types/tensor.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Transport> MakeGrpc(GrpcOptions options = {}) { return MakeGrpcTransport(options).value(); }

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

// gRPC takes "unix:4242" for the socket of that name in this folder. Tasks that join bring their addresses.
TEST(GrpcTransport, AHostWithTheNameOfASchemeIsAHost) {
  ASSERT_EQ(chdir(testing::TempDir().c_str()), 0);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "4242"};
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  auto transport = MakeGrpc();
  auto channel = transport->Connect({"worker", 3}, "unix:4242").value();
  EXPECT_FALSE(CallAndWait(*channel, "/weir.T/X", {}, Within(absl::Seconds(2))).ok());
  EXPECT_EQ(accept(fd, nullptr, nullptr), -1) << "somebody has connected to the socket";
  close(fd);
  unlink("4242");
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

// The server's first frame (RFC 9113, 6.5): the length in three bytes, type 4, flags, the stream; then
// settings, each a number in two bytes and its value in four.
std::map<int, uint32_t> SettingsOf(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string greeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  EXPECT_EQ(write(fd, greeting.data(), greeting.size()), static_cast<ssize_t>(greeting.size()));
  const auto read_bytes = [fd](size_t count) {
    std::string bytes(count, '\0');
    size_t done = 0;
    while (done < count) {
      const ssize_t found = read(fd, bytes.data() + done, count - done);
      if (found <= 0) break;
      done += found;
    }
    bytes.resize(done);
    return bytes;
  };
  const auto number = [](absl::string_view bytes) {
    uint32_t value = 0;
    for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  };
  const std::string header = read_bytes(9);
  EXPECT_EQ(header.size(), 9u);
  EXPECT_EQ(header[3], 4);
  const std::string payload = read_bytes(number(header.substr(0, 3)));
  close(fd);
  std::map<int, uint32_t> settings;
  for (size_t i = 0; i + 6 <= payload.size(); i += 6) {
    settings[static_cast<int>(number(payload.substr(i, 2)))] = number(payload.substr(i + 2, 4));
  }
  return settings;
}

TEST(GrpcTransport, StreamsAndHeadersOfACallerAreBounded) {
  auto transport = MakeGrpc();
  auto listener = transport->Listen("127.0.0.1:0", Echo).value();
  const std::string& address = listener->address();
  const std::map<int, uint32_t> settings = SettingsOf(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_EQ(settings.at(3), 10'000u);  // SETTINGS_MAX_CONCURRENT_STREAMS
  EXPECT_EQ(settings.at(6), 8192u);    // SETTINGS_MAX_HEADER_LIST_SIZE
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
  for (const char* wrong : {"", "0123456789abcdeg", "0123456789abcdefg"}) {
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
  insecure.security.token = "0123456789abcdef";  // is checked nevertheless
  const auto server = MakeGrpc(insecure);
  const auto listener = server->Listen("127.0.0.1:0", Echo).value();
  const auto stranger = MakeGrpc();
  EXPECT_EQ(CallAndWait(*stranger->Connect({"ps", 0}, listener->address()).value(), "/weir.T/E", {},
                        Within(absl::Seconds(10)))
                .status()
                .code(),
            absl::StatusCode::kUnauthenticated);
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

// The system accepts connections for a process that is stopped.
TEST(GrpcTransport, ATaskThatAcceptsConnectionsAndDoesNotAnswerIsSaidToDoThat) {
  const std::string dir = MakeCertificates();
  const ListeningSockets stopped = ListenAt("127.0.0.1:0").value();
  for (const bool uses_tls : {false, true}) {
    if (uses_tls && dir.empty()) GTEST_SKIP() << "no openssl command to make certificates with";
    GrpcOptions options;
    if (uses_tls) options.security.tls_ca_file = dir + "/ca.pem";
    const auto transport = MakeGrpc(options);
    const auto channel = transport->Connect({"ps", 0}, absl::StrCat("127.0.0.1:", stopped.port)).value();
    const absl::Status status = CallAndWait(*channel, "/weir.T/E", {}, Within(absl::Seconds(60))).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(Text(status),
                HasSubstr("the task accepts connections but does not answer: it may be stopped"));
    EXPECT_THAT(Text(status), Not(HasSubstr("TLS"))) << uses_tls;
  }
  for (const int fd : stopped.fds) close(fd);
}

// gRPC has a line for each handshake that fails, and anybody can make handshakes fail.
TEST(GrpcTransport, WhoKnocksWithNoiseFillsNoLog) {
  const std::string dir = MakeCertificates();
  if (dir.empty()) GTEST_SKIP() << "no openssl command to make certificates with";
  GrpcOptions options;
  options.security.tls_ca_file = dir + "/ca.pem";
  options.security.tls_cert_file = dir + "/cert.pem";
  options.security.tls_key_file = dir + "/key.pem";
  auto transport = MakeGrpc(options);
  auto listener = transport->Listen("127.0.0.1:0", Echo).value();
  const std::string& address = listener->address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 200; ++i) {
    RawConnection noise(port);
    noise.Write(std::string(64, static_cast<char>('a' + i % 20)));
    EXPECT_TRUE(noise.AwaitClose());
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("andshake failed"));
  EXPECT_LT(std::count(said.begin(), said.end(), '\n'), 20) << said;
}

TEST(Security, OptionsThatDoNotFitTogether) {
  GrpcOptions options;
  options.security.tls_cert_file = "/no/such/file";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("must be given together"));
  options.security.tls_key_file = "/no/such/key";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("cannot read '/no/such/file'"));
  options = {};
  options.security.token = "with a space in it";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("not visible ASCII"));
  options.security.token = "x";
  EXPECT_THAT(Text(MakeGrpcTransport(options).status()), HasSubstr("has 1 characters"));
  const std::string path = ::testing::TempDir() + "/token";
  std::ofstream(path) << "secret-secret-secret\n";
  EXPECT_EQ(ReadTokenFile(path).value(), "secret-secret-secret");
  std::ofstream(path) << "short\n";
  EXPECT_THAT(Text(ReadTokenFile(path).status()), HasSubstr("has 5 characters"));
  EXPECT_EQ(ReadTokenFile(path + "x").status().code(), absl::StatusCode::kNotFound);
}

// gRPC's own asks name servers for what /etc/hosts has, and waits in silence when there are none.
TEST(GrpcTransportNamesTest, NamesAreLookedUpAsTheSystemDoes) {
  ASSERT_TRUE(MakeGrpcTransport({}).ok());
  ASSERT_NE(getenv("GRPC_DNS_RESOLVER"), nullptr);
  EXPECT_STREQ(getenv("GRPC_DNS_RESOLVER"), "native");
}

}  // namespace
}  // namespace weir
