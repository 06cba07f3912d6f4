// A chief that is stopped, replaced by another process under its address, and goes on afterwards: real
// processes, gRPC, one checkpoint folder.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr int kExitOfASupersededTask = 5;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A port that stands for one process after the other, as a host name does: connections that there are stay.
class MovingAddress {
 public:
  explicit MovingAddress(int port) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const sockaddr_in address = Loopback(port);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~MovingAddress() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (const int fd : sockets_) shutdown(fd, SHUT_RDWR);
    for (std::thread& pump : pumps_) pump.join();
    for (const int fd : sockets_) close(fd);
    close(listener_);
  }
  void PointTo(int port) { port_ = port; }

 private:
  void Accept() {
    while (true) {
      const int client = accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = Loopback(port_);
      sockets_.insert(sockets_.end(), {client, server});
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        shutdown(client, SHUT_RDWR);
        continue;
      }
      pumps_.emplace_back([=] { Pump(client, server); });
      pumps_.emplace_back([=] { Pump(server, client); });
    }
  }
  static void Pump(int from, int to) {
    char bytes[1 << 14];
    for (ssize_t count; (count = read(from, bytes, sizeof(bytes))) > 0;) {
      for (ssize_t sent = 0; sent < count;) {
        const ssize_t n = send(to, bytes + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += n;
      }
    }
    shutdown(to, SHUT_RDWR);
    shutdown(from, SHUT_RDWR);
  }

  const int listener_;
  std::atomic<int> port_{0};
  std::vector<int> sockets_;  // of the acceptor, until it has ended
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

// Whether the stop has come to each of its threads: until then some still send heartbeats.
bool IsStopped(pid_t pid) {
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    const std::string stat = ReadFile(thread.path() / "stat");
    if (!absl::StartsWith(absl::string_view(stat).substr(stat.rfind(')') + 1), " T")) return false;
  }
  return true;
}

class ZombieChiefTest : public ::testing::Test {
 protected:
  ZombieChiefTest() : ports_(ReservedPorts::Take(5).value()), chief_address_(ports_[1]) {}

  // `listen`: the port where it really listens; 0: that of its address.
  TestProcess Start(const std::string& job, int index, int listen = 0) {
    const std::string config = absl::StrCat(
        R"({"cluster": {"ps": ["127.0.0.1:)", ports_[0], R"("], "worker": ["127.0.0.1:)", ports_[1],
        R"(", "127.0.0.1:)", ports_[2], R"("]}, "task": {"type": ")", job, R"(", "index": )", index, "}}");
    std::vector<std::pair<std::string, std::string>> environment = {{"TF_CONFIG", config}};
    if (listen != 0) environment.push_back({"WEIR_LISTEN", absl::StrCat("127.0.0.1:", listen)});
    return TestProcess::Start({"tests/faults/counting_trainer", "--dir=" + dir_, "--last_step=400",
                               "--step_ms=20", "--lease_seconds=2"},
                              dir_ + "/log", environment);
  }
  int StepOfChief() { return ReadNumber(dir_ + "/worker:0.step"); }
  std::string Log() { return ReadFile(dir_ + "/log"); }

  const std::string dir_ = MakeTestDir("");
  const ReservedPorts ports_;  // of ps 0, the chief, worker 1, the first and the second chief process
  MovingAddress chief_address_;
};

TEST_F(ZombieChiefTest, EndsWhenItWakesAndItsSuccessorFinishesTheJob) {
  TestProcess ps = Start("ps", 0);
  chief_address_.PointTo(ports_[3]);
  TestProcess first = Start("worker", 0, ports_[3]);
  TestProcess worker = Start("worker", 1);
  ASSERT_TRUE(Await([&] { return StepOfChief() >= 15; })) << Log();
  first.Signal(SIGSTOP);
  ASSERT_TRUE(Await([&] { return IsStopped(first.pid()); }));
  // As a file server does with the lock of a client that is silent for long.
  ASSERT_EQ(std::remove((dir_ + "/model/.lock").c_str()), 0);
  ASSERT_EQ(std::remove((dir_ + "/worker:0.step").c_str()), 0);
  chief_address_.PointTo(ports_[4]);
  TestProcess second = Start("worker", 0, ports_[4]);
  ASSERT_TRUE(Await([&] { return StepOfChief() > 0; })) << Log();
  first.Signal(SIGCONT);
  EXPECT_EQ(first.AwaitExit(), kExitOfASupersededTask) << Log();
  EXPECT_EQ(second.AwaitExit(), 0) << Log();
  EXPECT_EQ(worker.AwaitExit(), 0) << Log();
  EXPECT_EQ(ps.AwaitExit(), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("was superseded"));
  EXPECT_THAT(ReadFile(dir_ + "/model/checkpoint"), HasSubstr("model_checkpoint_path: \"model.ckpt-40"));
}

// Its new process is found under the old address, where its connections had been.
TEST_F(ZombieChiefTest, AKilledChiefThatIsStartedElsewhereGoesOn) {
  TestProcess ps = Start("ps", 0);
  chief_address_.PointTo(ports_[3]);
  TestProcess first = Start("worker", 0, ports_[3]);
  TestProcess worker = Start("worker", 1);
  ASSERT_TRUE(Await([&] { return StepOfChief() >= 15; })) << Log();
  first.Signal(SIGKILL);
  EXPECT_EQ(first.AwaitExit(), 128 + SIGKILL);
  chief_address_.PointTo(ports_[4]);
  TestProcess second = Start("worker", 0, ports_[4]);
  EXPECT_EQ(second.AwaitExit(), 0) << Log();
  EXPECT_EQ(worker.AwaitExit(), 0) << Log();
  EXPECT_EQ(ps.AwaitExit(), 0) << Log();
}

}  // namespace
}  // namespace weir
