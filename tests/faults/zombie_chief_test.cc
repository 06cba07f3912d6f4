// A chief that is stopped, replaced by another process under its address, and goes on afterwards: real
// processes, gRPC, one checkpoint folder.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
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

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <typename Condition>
bool Await(Condition condition, absl::Duration timeout = absl::Seconds(60)) {
  for (const absl::Time end = absl::Now() + timeout; absl::Now() < end;) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return condition();
}

class ZombieChiefTest : public ::testing::Test {
 protected:
  ZombieChiefTest() : ports_(FindFreePorts(5).value()), chief_address_(ports_[1]) {
    const std::string command = absl::StrCat("rm -rf '", dir_, "' && mkdir -p '", dir_, "'");
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  ~ZombieChiefTest() override {
    for (const pid_t pid : running_) kill(pid, SIGKILL);
    for (const pid_t pid : running_) waitpid(pid, nullptr, 0);
  }

  // `listen`: the port where it really listens; 0: that of its address.
  pid_t Start(const std::string& job, int index, int listen = 0) {
    const std::string config = absl::StrCat(
        R"({"cluster": {"ps": ["127.0.0.1:)", ports_[0], R"("], "worker": ["127.0.0.1:)", ports_[1],
        R"(", "127.0.0.1:)", ports_[2], R"("]}, "task": {"type": ")", job, R"(", "index": )", index, "}}");
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("TF_CONFIG", config.c_str(), 1);
      if (listen != 0) setenv("WEIR_LISTEN", absl::StrCat("127.0.0.1:", listen).c_str(), 1);
      const int out = open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      const std::string folder = absl::StrCat("--dir=", dir_);
      execl("tests/faults/counting_trainer", "counting_trainer", folder.c_str(), "--last_step=400",
            "--step_ms=20", "--lease_seconds=2", nullptr);
      _exit(126);
    }
    running_.push_back(pid);
    return pid;
  }

  // Its exit code; -1 when it does not end in time, or was killed.
  int AwaitEnd(pid_t pid) {
    int status = 0;
    if (!Await([&] { return waitpid(pid, &status, WNOHANG) == pid; })) return -1;
    std::erase(running_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int StepOfChief() {
    int step = -1;
    return absl::SimpleAtoi(ReadFile(dir_ + "/worker:0.step"), &step) ? step : -1;
  }
  std::string Log() { return ReadFile(dir_ + "/log"); }

  const std::string dir_ = absl::StrCat(::testing::TempDir(), "/",
                                        ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::vector<int> ports_;  // of ps 0, the chief, worker 1, the first and the second chief process
  MovingAddress chief_address_;
  std::vector<pid_t> running_;
};

TEST_F(ZombieChiefTest, EndsWhenItWakesAndItsSuccessorFinishesTheJob) {
  const pid_t ps = Start("ps", 0);
  chief_address_.PointTo(ports_[3]);
  const pid_t first = Start("worker", 0, ports_[3]);
  const pid_t worker = Start("worker", 1);
  ASSERT_TRUE(Await([&] { return StepOfChief() >= 15; })) << Log();
  ASSERT_EQ(kill(first, SIGSTOP), 0);
  // As a file server does with the lock of a client that is silent for long.
  ASSERT_EQ(std::remove((dir_ + "/model/.lock").c_str()), 0);
  ASSERT_EQ(std::remove((dir_ + "/worker:0.step").c_str()), 0);
  chief_address_.PointTo(ports_[4]);
  const pid_t second = Start("worker", 0, ports_[4]);
  ASSERT_TRUE(Await([&] { return StepOfChief() > 0; })) << Log();
  ASSERT_EQ(kill(first, SIGCONT), 0);
  EXPECT_EQ(AwaitEnd(first), kExitOfASupersededTask) << Log();
  EXPECT_EQ(AwaitEnd(second), 0) << Log();
  EXPECT_EQ(AwaitEnd(worker), 0) << Log();
  EXPECT_EQ(AwaitEnd(ps), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("was superseded"));
  EXPECT_THAT(ReadFile(dir_ + "/model/checkpoint"), HasSubstr("model_checkpoint_path: \"model.ckpt-40"));
}

// Its new process is found under the old address, where its connections had been.
TEST_F(ZombieChiefTest, AKilledChiefThatIsStartedElsewhereGoesOn) {
  const pid_t ps = Start("ps", 0);
  chief_address_.PointTo(ports_[3]);
  const pid_t first = Start("worker", 0, ports_[3]);
  const pid_t worker = Start("worker", 1);
  ASSERT_TRUE(Await([&] { return StepOfChief() >= 15; })) << Log();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_EQ(AwaitEnd(first), -1);
  chief_address_.PointTo(ports_[4]);
  const pid_t second = Start("worker", 0, ports_[4]);
  EXPECT_EQ(AwaitEnd(second), 0) << Log();
  EXPECT_EQ(AwaitEnd(worker), 0) << Log();
  EXPECT_EQ(AwaitEnd(ps), 0) << Log();
}

}  // namespace
}  // namespace weir
