// Strangers who open all the connections that they can, while a task has few descriptors: it can still open
// files, and who belongs to the job still gets in. In a program of its own: the hard limit is lowered for
// good.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/cluster_spec.h"
#include "distributed/keys/key_files.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/test_calls.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

constexpr int kLimit = 300;  // of descriptors
constexpr int kFiles = 50;   // that a task opens
constexpr int kAttackers = 600;

// A process that keeps as many connections to a port as it can, and opens another one for each that is
// closed. It has an address of its own: one network keeps out only itself (connection_gate.h).
class Attacker {
 public:
  explicit Attacker(int port) {
    pid_ = fork();
    if (pid_ == 0) Run(port);
  }
  ~Attacker() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  [[noreturn]] static void Run(int port) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in own{.sin_family = AF_INET};
    own.sin_addr.s_addr = inet_addr("127.66.6.6");
    std::array<pollfd, kAttackers> connections;
    connections.fill({-1, 0, 0});
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the test crash
    while (true) {
      for (pollfd& connection : connections) {
        if (connection.fd >= 0 && connection.revents == 0) continue;
        if (connection.fd >= 0) close(connection.fd);
        connection = {socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), POLLRDHUP, 0};
        (void)!bind(connection.fd, reinterpret_cast<sockaddr*>(&own), sizeof(own));
        (void)!connect(connection.fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
      }
      poll(nullptr, 0, 20);
      poll(connections.data(), connections.size(), 0);
    }
  }

  pid_t pid_;
};

int NumDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return kLimit;  // there is none left to count them with
  int count = -3;                        // ".", "..", and its own
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST(DescriptorFloodTest, StrangersLeaveDescriptorsForFilesAndForTheJob) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 2 * kAttackers) GTEST_SKIP() << "the attacker may open too few connections";
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const ReservedPorts ports = ReservedPorts::Take(1).value();
  const int port = ports[0];
  const Attacker attacker(port);  // before there are threads, and below the limit that it begins with
  limit = {.rlim_cur = kLimit, .rlim_max = kLimit};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  const std::string keys = absl::StrCat(::testing::TempDir(), "/keys", getpid());
  ASSERT_TRUE(MakeKeyFiles({.directory = keys, .hosts = {"127.0.0.1"}}).ok());
  ServerOptions options;
  options.security.tls_ca_file = keys + "/127.0.0.1/ca.pem";
  options.security.tls_cert_file = keys + "/127.0.0.1/cert.pem";
  options.security.tls_key_file = keys + "/127.0.0.1/key.pem";
  options.num_threads = 1;
  ClusterSpec cluster;
  const std::string address = absl::StrCat("127.0.0.1:", port);
  ASSERT_TRUE(cluster.AddTask({"ps", 0}, address).ok());
  const auto server = Server::Start(TaskConfig::Create(cluster, {"ps", 0}).value(), options).value();

  int most = 0;
  for (const absl::Time end = absl::Now() + absl::Seconds(5); absl::Now() < end;) {
    most = std::max(most, NumDescriptors());
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_GT(most, 100) << "the attacker did not come";
  std::vector<std::ifstream> files;
  for (int i = 0; i < kFiles; ++i) {
    files.emplace_back("/proc/self/status");
    EXPECT_TRUE(files.back().good()) << i << " files beside at most " << most << " descriptors";
  }
  files.clear();
  GrpcOptions member;
  member.security = options.security;
  const auto transport = MakeGrpcTransport(member).value();
  const auto channel = transport->Connect({"ps", 0}, address).value();
  absl::Status answered = absl::UnknownError("not asked");
  for (const absl::Time end = absl::Now() + absl::Seconds(60); !answered.ok() && absl::Now() < end;) {
    answered = CallAndWait(*channel, "/grpc.health.v1.Health/Check", {}, Within(absl::Seconds(60))).status();
  }
  EXPECT_TRUE(answered.ok()) << answered;
  server->Shutdown();
}

}  // namespace
}  // namespace weir
